"""Who may read the page: the cluster's own tokens, asked about at the API server, with short memory.

A reader needs ``get`` on the non-resource URL ``/gcushare/dashboard``. That is one question, it is what an admin can
grant without granting anything of the cluster itself, and cluster admins have it already.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aiohttp import web

from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError
from gcushare.kube import KubeClient
from gcushare.runtime.logs import fields
from gcushare.scheduler_extender.dashboard.reviews import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    AccessReview,
    TokenReview,
    UserInfo,
    access_review,
    token_review,
)

log = logging.getLogger(__name__)

PATH, VERB = "/gcushare/dashboard", "get"
"""What a reader must be allowed to do."""

ALLOWED_S = 60.0
"""How long a yes is believed: a token that was taken back reads on for at most this long."""

_REFUSED_S = 10.0
"""How long a no is believed, so that a role that was just granted soon works."""

_MAX_REMEMBERED = 1024
_MAX_TOKEN_CHARS = 16_384
_REVIEW_S = 5.0
_RATE_PER_S, _BURST = 10.0, 20.0
"""Tokens asked about: strangers must not make the extender spend the API server's time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a token. ``problem`` is empty where its owner may read."""

    user: str
    problem: str
    known: bool
    until: float


class Reviews(Protocol):
    """The API server's two reviews. Raises the errors of ``gcushare.kube``."""

    async def review_token(self, token: str) -> TokenReview:
        """Say whose token it is."""
        ...

    async def review_access(self, user: UserInfo) -> AccessReview:
        """Say whether a user may read the page."""
        ...


class KubeReviews:
    """The reviews of a real API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def review_token(self, token: str) -> TokenReview:
        """POST a TokenReview."""
        return await self._client.create(TOKEN_REVIEWS, token_review(token), timeout_s=_REVIEW_S)

    async def review_access(self, user: UserInfo) -> AccessReview:
        """POST a SubjectAccessReview."""
        return await self._client.create(ACCESS_REVIEWS, access_review(user, VERB, PATH), timeout_s=_REVIEW_S)


class Guard(Protocol):
    """Lets readers in, or does not."""

    async def admit(self, request: web.Request) -> None:
        """Return where this request may be answered.

        Raises:
            web.HTTPUnauthorized: no token, or one that nobody knows.
            ForbiddenError: its owner may not.
            RetryableError: nobody can say now.
        """
        ...


class OpenDoor:
    """Lets everybody in."""

    async def admit(self, request: web.Request) -> None:
        """Let anybody pass."""


class TokenGuard:
    """Lets in whose token the API server knows and whose owner it allows."""

    def __init__(self, reviews: Reviews, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reviews = reviews
        self._monotonic = monotonic
        self._verdicts: OrderedDict[str, Verdict] = OrderedDict()
        self._asking: dict[str, asyncio.Lock] = {}
        self._budget = _BURST
        self._budget_at = monotonic()

    async def admit(self, request: web.Request) -> None:
        """Judge the request's bearer token, from memory where it was judged a moment ago."""
        token = _bearer(request)
        if token is None:
            raise _unauthorized("a token of the cluster is needed: Authorization: Bearer <token>")
        verdict = await self._judge(token)
        if not verdict.known:
            raise _unauthorized(verdict.problem)
        if verdict.problem:
            raise ForbiddenError(verdict.problem)

    async def _judge(self, token: str) -> Verdict:
        # Tokens are not kept: what is remembered could not be used by whoever reads it.
        key = hashlib.sha256(token.encode()).hexdigest()
        if (verdict := self._recall(key)) is not None:
            return verdict
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if (verdict := self._recall(key)) is not None:
                    return verdict
                self._spend()
                return self._remember(key, await self._ask(token))
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    async def _ask(self, token: str) -> Verdict:
        try:
            found = (await self._reviews.review_token(token)).status
            if not found.authenticated:
                return self._refusal("", "the API server does not know this token; it may have expired", known=False)
            answer = (await self._reviews.review_access(found.user)).status
        except GcushareError as error:
            log.warning("token cannot be judged %s", fields(reason=error))
            raise RetryableError(_why_not_asked(error)) from error
        name = found.user.username
        if not answer.allowed:
            return self._refusal(
                name,
                f"{name!r} may not {VERB} the non-resource URL {PATH}; bind a ClusterRole that allows it",
                known=True,
            )
        log.info("reader let in %s", fields(user=name))
        return Verdict(name, "", True, self._monotonic() + ALLOWED_S)

    def _refusal(self, user: str, problem: str, *, known: bool) -> Verdict:
        log.info("reader refused %s", fields(user=user, reason=problem))
        return Verdict(user, problem, known, self._monotonic() + _REFUSED_S)

    def _recall(self, key: str) -> Verdict | None:
        verdict = self._verdicts.get(key)
        return verdict if verdict is not None and self._monotonic() < verdict.until else None

    def _remember(self, key: str, verdict: Verdict) -> Verdict:
        self._verdicts[key] = verdict
        self._verdicts.move_to_end(key)
        if len(self._verdicts) > _MAX_REMEMBERED:
            self._verdicts.popitem(last=False)
        return verdict

    def _spend(self) -> None:
        now = self._monotonic()
        self._budget = min(_BURST, self._budget + (now - self._budget_at) * _RATE_PER_S)
        self._budget_at = now
        if self._budget < 1.0:
            raise RetryableError("too many unknown tokens at once; try again in a moment", delay_s=1.0)
        self._budget -= 1.0


def _bearer(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        return None
    if len(token) > _MAX_TOKEN_CHARS or not token.isascii():
        raise _unauthorized(f"this is no token: accepted are at most {_MAX_TOKEN_CHARS} ASCII characters")
    return token


def _unauthorized(text: str) -> web.HTTPUnauthorized:
    return web.HTTPUnauthorized(text=text, headers={"WWW-Authenticate": 'Bearer realm="gcushare"'})


def _why_not_asked(error: GcushareError) -> str:
    if isinstance(error, ForbiddenError):
        return (
            "the extender may not ask the API server about tokens: bind its service account to the ClusterRole "
            "system:auth-delegator"
        )
    return f"the API server cannot be asked about the token now: {error}"
