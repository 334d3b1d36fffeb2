"""Ask the API server whose token this is, and whether they may read the page.

Source: authentication.k8s.io/v1 TokenReview and authorization.k8s.io/v1 SubjectAccessReview, served since 1.6.
"""

from __future__ import annotations

import msgspec

from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource

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


async def review_token(client: KubeClient, token: str) -> TokenReview:
    """Ask whose token this is. Raises the errors of ``gcushare.kube.errors``."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return await client.create(TOKEN_REVIEWS, asked, timeout_s=_REVIEW_S)


async def review_access(client: KubeClient, user: UserInfo) -> AccessReview:
    """Ask whether a user may read the page. Raises the errors of ``gcushare.kube.errors``."""
    spec: dict[str, object] = {"user": user.username, "nonResourceAttributes": {"verb": VERB, "path": PATH}}
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = user.groups
    if user.extra:
        spec["extra"] = user.extra
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return await client.create(ACCESS_REVIEWS, asked, timeout_s=_REVIEW_S)
