"""The two questions to the API server: whose token is this, and may they see the page. Wire forms and nothing else.

Source: authentication.k8s.io/v1 TokenReview and authorization.k8s.io/v1 SubjectAccessReview, served since 1.6.
"""

from __future__ import annotations

import msgspec

from gcushare.kube.resources import Resource


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
    error: str = ""


class TokenReview(_Review, frozen=True):
    """The answer to a TokenReview."""

    status: TokenStatus = TokenStatus()


class AccessStatus(_Review, frozen=True):
    """Whether something is allowed."""

    allowed: bool = False
    reason: str = ""


class AccessReview(_Review, frozen=True):
    """The answer to a SubjectAccessReview."""

    status: AccessStatus = AccessStatus()


TOKEN_REVIEWS = Resource("apis/authentication.k8s.io/v1", "tokenreviews", TokenReview, namespaced=False)
ACCESS_REVIEWS = Resource("apis/authorization.k8s.io/v1", "subjectaccessreviews", AccessReview, namespaced=False)


def token_review(token: str) -> dict[str, object]:
    """Ask whose token this is."""
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def access_review(user: UserInfo, verb: str, path: str) -> dict[str, object]:
    """Ask whether a user may use a path outside the resources."""
    spec: dict[str, object] = {"user": user.username, "nonResourceAttributes": {"verb": verb, "path": path}}
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = user.groups
    if user.extra:
        spec["extra"] = user.extra
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
