"""The errors of requests to the API server, grouped by what the caller can do about them.

The errors of ``gcushare.core.errors`` are used if they are precise enough; the classes here are more specific. The
functions below map HTTP answers; ``connection.transport`` maps failures of the transport. No error of aiohttp, ssl or
msgspec leaves this package.
"""

from __future__ import annotations

from dataclasses import dataclass

from gcushare.core.errors import (
    ConflictError,
    ContractError,
    ForbiddenError,
    GcushareError,
    NotFoundError,
    RemoteContractError,
    RetryableError,
)
from gcushare.kube.retry_after import retry_after_s
from gcushare.wire.objects import STATUS, Status

MAX_MESSAGE_CHARS = 600
"""Longest text of a server in a message: enough for a validation error, and short enough for a log."""

MAX_REASON_CHARS = 100
"""Longest reason of a Status in a message. Kubernetes' own have at most 40."""


class AlreadyExistsError(ConflictError):
    """An object with this name exists: read it, or choose another name."""


class UnauthorizedError(ForbiddenError):
    """The API server does not accept the credentials: they are missing, wrong or expired."""

    hint = "log in again (the token or certificate is wrong or has expired), or choose another context or user"


class EvictionRefusedError(RetryableError):
    """A pod may not be evicted now: a disruption budget does not allow it, or several budgets cover the pod."""


class GoneError(GcushareError):
    """The server no longer has the requested version or page: list again from the start."""


class InvalidError(ContractError):
    """The API server refuses the request as malformed. ``fields`` are the invalid fields, if it names them."""

    def __init__(self, message: str, *, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields


class UnansweredError(RetryableError):
    """The API server was not reached, or its answer did not come whole."""

    hint = (
        "is the API server up and reachable from here? 'kubectl version' asks the same server; --context or "
        "--kubeconfig names another cluster"
    )


class UnknownOutcomeError(UnansweredError):
    """The request may or may not have taken effect: read the object before deciding again."""


class NotConnectedError(OSError):
    """No connection was established. Used inside this package only; ``connection.transport`` converts it."""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A failed request: its text for messages, and whether it ``writes``, so that it may have taken effect."""

    text: str
    writes: bool


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """An unsuccessful HTTP answer."""

    code: int
    body: bytes = b""
    retry_after: str | None = None


_BUDGET_CAUSE = "DisruptionBudget"
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""How the eviction of a pod is refused. Source: Kubernetes, pkg/registry/core/pod/storage."""

_BY_CODE: dict[int, type[GcushareError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: ContractError,
    406: ContractError,
    409: ConflictError,
    410: GoneError,
    413: InvalidError,
    415: ContractError,
    422: InvalidError,
    429: RetryableError,
}
"""Any other 4xx or 3xx is a ``RemoteContractError``: it is not from an API server, but from something in between."""


def parse_status(body: bytes) -> Status:
    """Read the Status document of an answer. Other text, such as a proxy's page, becomes its message."""
    try:
        return STATUS.read(body)
    except RemoteContractError:
        return Status(message=body[: 4 * MAX_MESSAGE_CHARS].decode("utf-8", errors="replace"))


def error_of_answer(attempt: FailedRequest, failure: HttpFailure) -> GcushareError:
    """Choose the error for an HTTP answer. After a 5xx, a write's outcome is unknown; after a 429, it had no effect."""
    status = parse_status(failure.body)
    is_redirect = 300 <= failure.code < 400
    default = "by a proxy in front of the API server, or at a wrong address" if is_redirect else "without a reason"
    reason = _cut(status.reason, MAX_REASON_CHARS) or default
    message = f"{attempt.text} was answered {failure.code} {reason}: {_cut(status.message)}".removesuffix(": ")
    return _error_of_code(failure.code, status, message, attempt, retry_after_s(failure.retry_after, status))


def error_of_status(attempt: FailedRequest, status: Status) -> GcushareError:
    """Choose the error for a Status inside a watch stream."""
    code = status.code or 500
    message = f"{attempt.text} reported {code} {_cut(status.reason, MAX_REASON_CHARS)}: {_cut(status.message)}"
    return _error_of_code(code, status, message, attempt, retry_after_s(None, status))


def _error_of_code(
    code: int, status: Status, message: str, attempt: FailedRequest, delay_s: float | None
) -> GcushareError:
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExistsError(message)
    causes = status.details.causes if status.details else ()
    if code == 429:
        budgets = [cause.message or "a disruption budget" for cause in causes if cause.reason == _BUDGET_CAUSE]
        if budgets:
            return EvictionRefusedError(f"{message} ({_cut('; '.join(budgets))})", delay_s=delay_s)
        return RetryableError(message, delay_s=delay_s)
    if code == 500 and _SEVERAL_BUDGETS in status.message:
        return EvictionRefusedError(f"{message} (several disruption budgets cover it)", delay_s=delay_s)
    if code >= 500:
        family = UnknownOutcomeError if attempt.writes else RetryableError
        return family(message, delay_s=delay_s)
    family_of_code = _BY_CODE.get(code, RemoteContractError)
    if family_of_code is InvalidError:
        return InvalidError(message, fields=tuple(each.field for each in causes))
    return family_of_code(message)


def describe(failure: Exception) -> str:
    """Describe a library's exception in one bounded line. A timeout without a text gets one."""
    if isinstance(failure, TimeoutError) and not str(failure):
        return "no answer in time"
    return _cut(f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__)


def _cut(text: str, most: int = MAX_MESSAGE_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
