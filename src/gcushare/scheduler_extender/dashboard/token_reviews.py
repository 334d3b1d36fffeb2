"""Ask the API server whose token this is, and whether they may read the page; and how often it is asked.

Source: authentication.k8s.io/v1 TokenReview and authorization.k8s.io/v1 SubjectAccessReview, served since 1.6.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import NamedTuple, Protocol

import msgspec

from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.resources import Resource
from gcushare.kube.write_rate import TokenBucket

PATH, VERB = "/gcushare/dashboard", "get"
"""What a reader must be allowed to do."""

_REVIEW_S = 5.0


class _Review(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    pass


class UserInfo(_Review, frozen=True):
    """Who a token stands for."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenStatus(_Review, frozen=True):
    """What the API server says of a token."""

    authenticated: bool = False
    user: UserInfo = UserInfo()


class TokenReview(_Review, frozen=True):
    """The answer to a TokenReview."""

    status: TokenStatus = TokenStatus()


class AccessStatus(_Review, frozen=True):
    """Whether something is allowed."""

    allowed: bool = False


class AccessReview(_Review, frozen=True):
    """The answer to a SubjectAccessReview."""

    status: AccessStatus = AccessStatus()


TOKEN_REVIEWS = Resource("apis/authentication.k8s.io/v1", "tokenreviews", TokenReview, namespaced=False)
ACCESS_REVIEWS = Resource("apis/authorization.k8s.io/v1", "subjectaccessreviews", AccessReview, namespaced=False)


def token_review(token: str) -> dict[str, object]:
    """Ask whose token this is."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def access_review(user: UserInfo) -> dict[str, object]:
    """Ask whether a user may read the page."""
    spec: dict[str, object] = {"user": user.username, "nonResourceAttributes": {"verb": VERB, "path": PATH}}
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = user.groups
    if user.extra:
        spec["extra"] = user.extra
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


class Reviews(Protocol):
    """The API server's two reviews. Raises the errors of ``gcushare.kube``."""

    async def review_token(self, token: str) -> TokenReview:
        """Say whose token it is."""

    async def review_access(self, user: UserInfo) -> AccessReview:
        """Say whether a user may read the page."""


class KubeReviews:
    """The reviews of a real API server."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def review_token(self, token: str) -> TokenReview:
        return await self._client.create(TOKEN_REVIEWS, token_review(token), timeout_s=_REVIEW_S)

    async def review_access(self, user: UserInfo) -> AccessReview:
        return await self._client.create(ACCESS_REVIEWS, access_review(user), timeout_s=_REVIEW_S)


_MAX_PEERS = 4096
"""Addresses remembered. The one idle longest starts again: the bound for all unknown callers makes that harmless."""

_IPV6_SITE_BITS = 64
"""The prefix of one site: the owner of one IPv6 address can use all of its /64."""


class Rate(NamedTuple):
    """So many a second on average, and so many at once."""

    per_s: float
    burst: int


PER_PEER = Rate(2.0, 10)
"""Unknown tokens of one address: a few people behind one proxy may log in at once, one program cannot take all."""

UNKNOWN_TOKENS = Rate(10.0, 20)
"""Unknown tokens of all addresses together."""

KNOWN_TOKENS = Rate(10.0, 20)
"""Tokens that were valid a moment ago: 64 readers, renewed every 40 s, need less than two a second."""


class TokenReviewLimit:
    """Decides whether one more token may be reviewed; ``UNKNOWN_TOKENS`` and ``KNOWN_TOKENS`` bound the sum.

    A token that is refused here costs the API server nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unknown = TokenBucket(*UNKNOWN_TOKENS, clock)
        self._known = TokenBucket(*KNOWN_TOKENS, clock)
        self._peers: OrderedDict[str, TokenBucket] = OrderedDict()

    def take_for_known(self) -> bool:
        """Take one for a token that was valid before. Unknown tokens cannot use up this share; known ones use both."""
        return self._known.take_now() or self._unknown.take_now()

    def take_for_unknown(self, address: str | None) -> bool:
        """Take one for an unknown token that came from an address; False if its peer, or all together, have none."""
        site = site_of(address)
        peer = self._peers.pop(site, None) or TokenBucket(*PER_PEER, self._clock)
        self._peers[site] = peer
        if len(self._peers) > _MAX_PEERS:
            self._peers.popitem(last=False)
        # A peer over its own limit spends nothing of the shared one.
        return peer.take_now() and self._unknown.take_now()


def site_of(address: str | None) -> str:
    """The site of an address: the IPv4 address itself, or the /64 of an IPv6 address; empty if it is unknown."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_SITE_BITS), strict=False))
