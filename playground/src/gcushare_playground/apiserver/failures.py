"""Refusals of the API server, each with the code, reason and text that clients of kube-apiserver know.

Source: ``k8s.io/apimachinery/pkg/api/errors``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gcushare.core.errors import GcushareError
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import Resource


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong: where, and what is wrong with it."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class ApiFailure(GcushareError):
    """A request that the server refuses; :meth:`status` is the body that says so."""

    def __init__(self, code: int, reason: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> JsonObject:
        """Return the ``Status`` document of this refusal."""
        body: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            body["details"] = self.details
        return body


def _details(resource: Resource, name: str) -> JsonObject:
    details: JsonObject = {"name": name, "kind": resource.plural}
    if resource.group:
        details["group"] = resource.group
    return details


def bad_request(message: str) -> ApiFailure:
    """400: the request cannot be read."""
    return ApiFailure(400, "BadRequest", message)


def unauthorized() -> ApiFailure:
    """401: no credentials, or unknown ones."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str) -> ApiFailure:
    """403: the caller may not, or the object's state forbids it."""
    named = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiFailure(403, "Forbidden", f"{named} is forbidden: {why}", _details(resource, name))


def not_found(resource: Resource, name: str) -> ApiFailure:
    """404: no such object."""
    return ApiFailure(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def unknown_path() -> ApiFailure:
    """404: no such resource or path."""
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiFailure:
    """405: the resource has no such verb."""
    return ApiFailure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiFailure:
    """409: the name is taken."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiFailure(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "") -> ApiFailure:
    """409: the object is not in the state the caller assumed."""
    where = f"{resource.qualified}/{subresource}" if subresource else resource.qualified
    message = f'Operation cannot be fulfilled on {where} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, _details(resource, name))


def modified(resource: Resource, name: str) -> ApiFailure:
    """409: another write came first."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def expired(message: str) -> ApiFailure:
    """410: the history does not contain the requested version any more; list again."""
    return ApiFailure(410, "Expired", message)


def body_too_large(limit_bytes: int) -> ApiFailure:
    """413: the body exceeds the limit."""
    return ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def unsupported_media(accepted: Sequence[str]) -> ApiFailure:
    """415: a body in a format that is not spoken here."""
    message = "the body of the request was in an unknown format - accepted media types include: "
    return ApiFailure(415, "UnsupportedMediaType", message + ", ".join(accepted))


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> ApiFailure:
    """422: the object breaks its kind's rules; every broken field is named."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    body = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = _details(resource, name) | {
        "kind": resource.kind,
        "causes": [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes],
    }
    return ApiFailure(422, "Invalid", f'{kind} "{name}" is invalid: {body}', details)


def unprocessable(message: str) -> ApiFailure:
    """422: a patch that cannot be applied to the object."""
    full = f"the server rejected our request due to an error in our request: {message}"
    return ApiFailure(422, "Invalid", full)


def budget_refuses(name: str) -> ApiFailure:
    """429 to an eviction: a disruption budget allows none now."""
    causes = [{"reason": "DisruptionBudget", "message": f"The disruption budget {name} allows no disruption now"}]
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiFailure(429, "TooManyRequests", message, {"causes": causes})


def internal(message: str) -> ApiFailure:
    """500: something behind the server failed."""
    return ApiFailure(500, "InternalError", f"Internal error occurred: {message}")
