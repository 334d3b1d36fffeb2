"""Decide who may read the page: the API server reviews each reader's token, and answers are cached for a short time.

A reader needs ``get`` on the non-resource URL ``/gcushare/dashboard``. An admin can grant that without any right on
objects of the cluster, and cluster admins have it already.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass, replace

from aiohttp import web

from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.collections import Newest
from gcushare.kube.write_rate import TokenBucket
from gcushare.scheduler_extender.dashboard.token_reviews import PATH, VERB, review_access, review_token

logger = logging.getLogger(__name__)

ALLOWED_S = 60.0
"""How long a permission is cached: after a token is revoked, it can be used for at most this long."""

RENEWED_S = 40.0
"""The age at which a permission that is used is reviewed again: early, so that it outlives a busy API server."""

_AGAIN_S = 5.0
"""The pause after a review that the API server could not answer."""

_REFUSED_S = 10.0
"""How long a refusal is cached: short, so that a role that was just granted soon works."""

UNKNOWN_PER_S, UNKNOWN_BURST = 10.0, 20
"""Reviews of tokens that were not valid a moment ago: so many a second on average, and so many at once. The API server
is asked no more, whatever strangers send. Readers' own renewals are few: one each in 40 seconds.
"""

_MAX_REMEMBERED = 1024
_MAX_TOKEN_CHARS = 16_384


@dataclass(frozen=True, slots=True)
class ReviewedToken:
    """The result of a review. ``problem`` is empty if the owner may read; ``renew_at`` is at most ``until``."""

    user: str
    problem: str
    known: bool
    renew_at: float
    until: float


class TokenGuard:
    """Admits requests whose token the API server knows, and whose owner it allows to read the page."""

    def __init__(self, client: KubeClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        # Stored apart, so that a flood of made-up tokens pushes no reader out.
        self._readers = Newest[str, ReviewedToken](_MAX_REMEMBERED)
        self._refusals = Newest[str, ReviewedToken](_MAX_REMEMBERED)
        self._asking: dict[str, asyncio.Lock] = {}
        self._unknown = TokenBucket(UNKNOWN_PER_S, UNKNOWN_BURST, self._clock)

    async def admit(self, request: web.Request) -> None:
        """Review the request's bearer token, or use the cached review; return if its owner may read.

        Raises:
            web.HTTPUnauthorized: no token, or an unknown one.
            ForbiddenError: its owner may not.
            RetryableError: unknown at the moment.
        """
        verdict = await self._check(_read_token(request))
        if not verdict.known:
            raise _unauthorized(verdict.problem)
        if verdict.problem:
            raise ForbiddenError(verdict.problem)

    async def _check(self, token: str) -> ReviewedToken:
        # Only a hash of the token is stored: it is of no use to an attacker who reads the memory.
        key = hashlib.sha256(token.encode()).hexdigest()
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            # A request need not wait while another one renews the same token.
            if (verdict := self._recall(key, is_renewed=lock.locked())) is not None:
                return verdict
            async with lock:
                return self._recall(key) or await self._review(key, token)
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    async def _review(self, key: str, token: str) -> ReviewedToken:
        held = self._readers.get(key)
        try:
            if held is None and not self._unknown.take_now():
                raise RetryableError("too many tokens to be reviewed at once; try again in a moment", delay_s=1.0)
            verdict = await self._ask(token)
        except RetryableError as error:
            now = self._clock.monotonic()
            if held is None or now >= held.until:
                raise
            logger.info(
                "reader not renewed %s", fields(user=held.user, left_s=round(held.until - now, 1), reason=error)
            )
            return self._remember(key, replace(held, renew_at=min(now + _AGAIN_S, held.until)))
        if held is None and not verdict.problem:
            logger.info("reader let in %s", fields(user=verdict.user))
        return self._remember(key, verdict)

    async def _ask(self, token: str) -> ReviewedToken:
        try:
            found = await review_token(self._client, token)
            if not found.authenticated:
                return self._refusal("", "the API server does not know this token; it may have expired", known=False)
            answer = await review_access(self._client, found.user)
        except GcushareError as error:
            logger.warning("token cannot be reviewed %s", fields(reason=error))
            text = f"the API server cannot be asked about the token now: {error}"
            if isinstance(error, ForbiddenError):
                text = (
                    "the extender may not ask the API server about tokens: bind its service account to the "
                    "ClusterRole system:auth-delegator"
                )
            raise RetryableError(text) from error
        name = found.user.username
        if not answer.allowed:
            return self._refusal(
                name,
                f"{name!r} may not {VERB} the non-resource URL {PATH}; bind a ClusterRole that allows it",
                known=True,
            )
        now = self._clock.monotonic()
        return ReviewedToken(name, "", True, now + RENEWED_S, now + ALLOWED_S)

    def _refusal(self, user: str, problem: str, *, known: bool) -> ReviewedToken:
        logger.info("reader refused %s", fields(user=user, reason=problem))
        until = self._clock.monotonic() + _REFUSED_S
        return ReviewedToken(user, problem, known, until, until)

    def _recall(self, key: str, *, is_renewed: bool = False) -> ReviewedToken | None:
        verdict = self._readers.get(key) or self._refusals.get(key)
        if verdict is None:
            return None
        return verdict if self._clock.monotonic() < (verdict.until if is_renewed else verdict.renew_at) else None

    def _remember(self, key: str, verdict: ReviewedToken) -> ReviewedToken:
        self._readers.pop(key, None)
        self._refusals.pop(key, None)
        (self._refusals if verdict.problem else self._readers)[key] = verdict
        return verdict


def _read_token(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise _unauthorized("a token of the cluster is needed: Authorization: Bearer <token>")
    if len(token) > _MAX_TOKEN_CHARS or not token.isascii():
        raise _unauthorized(f"the bearer token is not valid: accepted are at most {_MAX_TOKEN_CHARS} ASCII characters")
    return token


def _unauthorized(text: str) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=text, headers={"WWW-Authenticate": 'Bearer realm="gcushare"'})
