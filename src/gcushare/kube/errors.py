"""The errors of requests to the API server, grouped by what the caller can do about them.

The errors of ``gcushare.core.errors`` are used if they are precise enough; the classes here are more specific. The
functions below map HTTP answers; ``connection.transport`` maps failures of the transport. No error of aiohttp, ssl or
msgspec leaves this package.
"""

from __future__ import annotations

import re
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

_MAX_TITLE_BYTES = 8192

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


class NotAnApiServerError(RemoteContractError):
    """Another program answered: a proxy, a login page, or whatever listens at a wrong address or port."""

    hint = (
        "check the server's address and proxy-url in the kubeconfig (--kubeconfig and --context choose another); "
        "HTTPS_PROXY is not read; a network with a login page may ask for a browser first; 'kubectl version' asks the "
        "same server"
    )


class AnswerTooLargeError(RemoteContractError):
    """The answer is larger than what is read of one."""


class NotConnectedError(OSError):
    """No connection was established. Used inside this package only; ``connection.transport`` converts it."""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A failed request: its text for messages, and whether it ``writes``, so that it may have taken effect."""

    text: str
    writes: bool

    @property
    def is_for_objects(self) -> bool:
        """Whether an API server itself answers, with JSON always, and not a program behind it."""
        return _OF_OBJECTS.match(self.text) is not None


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """An unsuccessful HTTP answer."""

    code: int
    body: bytes = b""
    retry_after: str | None = None


_OF_OBJECTS = re.compile(r"[A-Z]+ /apis?/(?!.*/proxy(?:/|$))")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
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
"""Any other 4xx or 3xx is a ``NotAnApiServerError``."""
_ALSO_WITHOUT_STATUS = (401, 429)
"""An API server answers these as plain text if its filters are in a hurry."""


def parse_status(body: bytes) -> Status:
    """Read the Status document of an answer. Other text, such as a proxy's page, becomes its message."""
    try:
        return STATUS.read(body)
    except RemoteContractError:
        return Status(message=describe_page(body) or body[: 4 * MAX_MESSAGE_CHARS].decode("utf-8", errors="replace"))


def describe_page(body: bytes) -> str:
    """Name a web page by its title; "" for any other text."""
    text = body[:_MAX_TITLE_BYTES].decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    if not text.startswith("<"):
        return ""
    title = _TITLE.search(text)
    return f"a web page, {_cut(title[1], MAX_REASON_CHARS)!r}" if title else "a web page"


def describe_content(body: bytes) -> str:
    """Name what an answer consists of, without quoting JSON, which may be a Secret."""
    start = body[:MAX_REASON_CHARS].decode("utf-8", errors="replace").strip()
    if not start:
        return "nothing"
    return describe_page(body) or ("other JSON" if start[0] in "{[" else f"the text {_cut(start)!r}")


def error_of_answer(attempt: FailedRequest, failure: HttpFailure) -> GcushareError:
    """Choose the error for an HTTP answer. After a 5xx, a write's outcome is unknown; after a 429, it had no effect."""
    status = parse_status(failure.body)
    reason = _cut(status.reason, MAX_REASON_CHARS) or "without a reason"
    message = f"{attempt.text} was answered {failure.code} {reason}: {_cut(status.message)}".removesuffix(": ")
    if not (status.status or status.reason) and failure.code < 500 and failure.code not in _ALSO_WITHOUT_STATUS:
        # An API server does not know the path of a group that it does not serve, and says so in plain text.
        is_unknown_group = failure.code == 404 and " /apis/" in attempt.text
        if describe_page(failure.body) or (attempt.is_for_objects and not is_unknown_group):
            return NotAnApiServerError(message)
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
    family_of_code = _BY_CODE.get(code, NotAnApiServerError)
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
