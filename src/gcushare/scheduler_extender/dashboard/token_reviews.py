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


class ReviewStatus(_Review, frozen=True):
    """What the API server says of a token, or of a right."""

    authenticated: bool = False
    allowed: bool = False
    user: UserInfo = UserInfo()


class Review(_Review, frozen=True):
    """The answer to a TokenReview or a SubjectAccessReview."""

    status: ReviewStatus = ReviewStatus()


TOKEN_REVIEWS = Resource("apis/authentication.k8s.io/v1", "tokenreviews", Review, namespaced=False)
ACCESS_REVIEWS = Resource("apis/authorization.k8s.io/v1", "subjectaccessreviews", Review, namespaced=False)


async def review_token(client: KubeClient, token: str) -> ReviewStatus:
    """Ask whose token this is. Raises the errors of ``gcushare.kube.errors``."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    return (await client.create(TOKEN_REVIEWS, asked, timeout_s=_REVIEW_S)).status


async def review_access(client: KubeClient, user: UserInfo) -> ReviewStatus:
    """Ask whether a user may read the page. Raises the errors of ``gcushare.kube.errors``."""
    known = msgspec.to_builtins(user)
    spec = {"user": known.pop("username", ""), **known, "nonResourceAttributes": {"verb": VERB, "path": PATH}}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return (await client.create(ACCESS_REVIEWS, asked, timeout_s=_REVIEW_S)).status
