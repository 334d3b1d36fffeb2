"""Reviews: questions that are answered and not stored, from the same tables that decide about requests."""

from __future__ import annotations

from collections.abc import Callable

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.authorization import Attributes, Authorizer
from gcushare_playground.apiserver.identities import Identities, User
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import Resource


class Reviewer:
    """Answers TokenReview and SubjectAccessReview."""

    def __init__(self, identities: Identities, authorizer: Callable[[], Authorizer]) -> None:
        self._identities = identities
        self._authorizer = authorizer

    def answer(self, resource: Resource, asked: JsonObject) -> JsonObject:
        """Return the review with its status filled in."""
        spec = asked.get("spec") or {}
        if resource.kind == "TokenReview":
            status = self._token(str(spec.get("token", "")))
        else:
            status = {"allowed": self._authorizer().allows(_attributes(_named_user(spec), spec))}
        return {**asked, "kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "status": status}

    def _token(self, token: str) -> JsonObject:
        user = self._identities.find(token)
        if user is None:
            return {"authenticated": False, "error": "the token is not known"}
        return {"authenticated": True, "user": user.document()}


def _named_user(spec: JsonObject) -> User:
    extra = {str(name): tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return User(str(spec.get("user", "")), tuple(spec.get("groups") or ()), extra)


def _attributes(user: User, spec: JsonObject) -> Attributes:
    asked = spec.get("nonResourceAttributes") or {}
    if not asked.get("path"):
        raise failures.bad_request("only a review of nonResourceAttributes is answered here")
    return Attributes(user, asked.get("verb", ""), path=asked["path"])
