"""Who is asking: users and the bearer tokens that stand for them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.objects import JsonObject

NODE_NAME = "authentication.kubernetes.io/node-name"
"""The extra that a token bound to a pod carries: the node the pod runs on."""
POD_NAME = "authentication.kubernetes.io/pod-name"
MASTERS = "system:masters"
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class User:
    """One identity, as TokenReview shows it."""

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def document(self) -> JsonObject:
        """Return the ``UserInfo`` document."""
        extra = {name: list(values) for name, values in self.extra.items()}
        return {"username": self.name, "groups": list(self.groups), "extra": extra}


ADMIN = User("kubernetes-admin", (MASTERS, "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def service_account(namespace: str, name: str, *, node: str = "", pod: str = "") -> User:
    """Return the identity of a service account; ``node`` and ``pod`` where its token is bound to a pod."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    extra = {key: (value,) for key, value in ((NODE_NAME, node), (POD_NAME, pod)) if value}
    return User(f"{_SERVICE_ACCOUNT}{namespace}:{name}", groups, extra=extra)


class Identities:
    """The table of bearer tokens."""

    def __init__(self, anonymous: User | None) -> None:
        self._anonymous = anonymous
        self._users: dict[str, User] = {}

    def issue(self, user: User) -> str:
        """Return a new token that stands for the user."""
        token = f"playground.{secrets.token_urlsafe(24)}"
        self._users[token] = user
        return token

    def find(self, token: str) -> User | None:
        """Return the user of a token."""
        return self._users.get(token)

    def authenticate(self, authorization: str | None) -> User:
        """Return who sent a request with this Authorization header.

        Raises:
            ApiFailure: 401 for an unknown token, or for none where anonymous requests are not accepted.
        """
        if not authorization:
            if self._anonymous is None:
                raise failures.unauthorized()
            return self._anonymous
        scheme, _, token = authorization.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise failures.unauthorized()
        return user
