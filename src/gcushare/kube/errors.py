"""What can go wrong between us and the API server, by what the caller can do about it.

The families of ``gcushare.core.errors`` are used where they say enough; the classes here add what only this edge knows.
The table at the end maps HTTP answers; ``connection.transport`` maps failures of the transport. Nothing of
aiohttp, ssl or msgspec passes this edge.
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
from gcushare.wire.objects import STATUS, Status

MAX_MESSAGE_CHARS = 600
"""Longest text of a server kept in a message: enough for a validation error, too little to flood a log."""

MAX_RETRY_AFTER_S = 120.0
"""Longest Retry-After obeyed; a proxy's hour must not stop a node."""


class AlreadyExistsError(ConflictError):
    """An object of that name exists: read it, or choose another name."""


class UnauthorizedError(ForbiddenError):
    """The API server does not know who is asking: credentials are missing, wrong or expired."""


class EvictionRefusedError(RetryableError):
    """A pod may not be evicted now: a disruption budget does not allow it, or several budgets cover the pod."""


class GoneError(GcushareError):
    """The version or page asked for is no longer kept: list again from the start."""


class InvalidError(ContractError):
    """The API server refuses what was sent as malformed; ``fields`` names the places at fault, where it said so."""

    def __init__(self, message: str, *, fields: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fields = fields


class UnknownOutcomeError(RetryableError):
    """The request may or may not have taken effect: read the object before deciding again."""


class NotConnectedError(OSError):
    """No connection was made; inside this package only, the table below makes it an error of ours."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The request that failed, as far as messages and the mapping need it. ``writes``: it could change something."""

    words: str
    writes: bool


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """An answer that is not a success."""

    code: int
    body: bytes = b""
    retry_after: str | None = None


_BUDGET_CAUSE = "DisruptionBudget"
_SEVERAL_BUDGETS = "more than one PodDisruptionBudget"

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
"""Every other 4xx and 3xx is a ``RemoteContractError``: no API server answers so, something stands in between."""


def parse_status(body: bytes) -> Status:
    """Read the Status document of an answer; text that is none (a proxy's page) becomes its message."""
    try:
        return STATUS.read(body)
    except RemoteContractError:
        return Status(message=body[: 4 * MAX_MESSAGE_CHARS].decode("utf-8", errors="replace"))


def error_of_answer(attempt: Attempt, failure: HttpFailure) -> GcushareError:
    """Choose the error for an HTTP answer; a 5xx to a write leaves its outcome unknown, a 429 was never tried."""
    status = parse_status(failure.body)
    message = (
        f"{attempt.words} was answered {failure.code} {status.reason or 'without a reason'}: {_cut(status.message)}"
    )
    return _error_of_code(failure.code, status, message, attempt, _delay_s(failure, status))


def error_of_status(attempt: Attempt, status: Status) -> GcushareError:
    """Choose the error for a Status that came inside a watch stream."""
    code = status.code or 500
    message = f"{attempt.words} reported {code} {status.reason}: {_cut(status.message)}"
    return _error_of_code(code, status, message, attempt, _delay_s(HttpFailure(code), status))


def _error_of_code(code: int, status: Status, message: str, attempt: Attempt, delay_s: float | None) -> GcushareError:
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExistsError(message)
    if budget := _refusing_budget(code, status):
        return EvictionRefusedError(f"{message} ({budget})", delay_s=delay_s)
    if code == 429:
        return RetryableError(message, delay_s=delay_s)
    if code >= 500:
        family = UnknownOutcomeError if attempt.writes else RetryableError
        return family(message, delay_s=delay_s)
    family_of_code = _BY_CODE.get(code, RemoteContractError)
    if family_of_code is InvalidError:
        causes = status.details.causes if status.details else ()
        return InvalidError(message, fields=tuple(each.field for each in causes))
    return family_of_code(message)


def _refusing_budget(code: int, status: Status) -> str:
    """What keeps a pod from being evicted, where that is what an answer says; "" else.

    Source: the eviction subresource of pods in Kubernetes, pkg/registry/core/pod/storage.
    """
    causes = status.details.causes if status.details else ()
    if code == 429:
        words = [cause.message or "a disruption budget" for cause in causes if cause.reason == _BUDGET_CAUSE]
        return _cut("; ".join(words))
    return "several disruption budgets cover it" if code == 500 and _SEVERAL_BUDGETS in status.message else ""


def describe(failure: Exception) -> str:
    """Say what a foreign exception was, on one bounded line; a bare timeout says nothing of itself."""
    if isinstance(failure, TimeoutError) and not str(failure):
        return "no answer in time"
    return _cut(f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[: MAX_MESSAGE_CHARS - 1]}…"


def _delay_s(failure: HttpFailure, status: Status) -> float | None:
    """Seconds the server asked to wait; the header counts first. HTTP dates are not read: clocks may disagree."""
    if failure.retry_after is not None and re.fullmatch(r"\s*\d{1,9}\s*", failure.retry_after, re.ASCII):
        return min(float(failure.retry_after), MAX_RETRY_AFTER_S)
    seconds = status.details.retry_after_seconds if status.details else None
    return None if not seconds or seconds < 0 else min(float(seconds), MAX_RETRY_AFTER_S)
