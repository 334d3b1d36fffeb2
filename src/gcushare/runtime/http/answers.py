"""Every HTTP answer that the server itself gives, to errors and to requests that it rejects, with their log lines.

The scheduler's port (`scheduler_connection`) and the servers of aiohttp (`page_server`) use them, so errors look the
same on every port.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from collections import Counter
from email.utils import formatdate
from enum import Enum
from typing import TypeAlias

from aiohttp import web

from gcushare.core import errors
from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

# The first match wins, so a subclass comes before its base class. Any other error is a defect of ours: 500.
STATUS_BY_ERROR: tuple[tuple[type[GcushareError], int], ...] = (
    (errors.RemoteContractError, 400),
    (errors.ForbiddenError, 403),
    (errors.NotFoundError, 404),
    (errors.ConflictError, 409),
    (errors.Refused, 422),
    (errors.RetryableError, 503),
)

_LONGEST_TEXT = 2000


class Cause(Enum):
    """Why a request or a connection was rejected; the values are the metric's label."""

    CONNECTIONS = "connections"
    """The maximum of connections is open, and none of them is idle."""
    MEMORY = "memory"
    """The memory for bodies was used up, or a slow body gave way to another body or connection."""
    SLOW = "slow"
    """The body did not arrive in time."""
    SIZE = "size"
    """The body is larger than allowed."""
    MALFORMED = "malformed"
    CERTIFICATE = "certificate"
    """The client presented none although one is required, or the certificate of another client."""
    HANDSHAKE = "handshake"
    """The TLS handshake failed: unknown authority, no certificate although one is required, or no TLS at all. Or it was
    the oldest one when the limit of handshakes was reached."""


RejectedCounts: TypeAlias = Counter[Cause]
"""The counts of one server since its start."""


def error_response(status: int, text: str, *, close: bool = False) -> web.Response:
    """Build the answer to an error: ``{"error": ..., "status": ...}``. ``text`` is one sentence, cut to a bound.

    ``close`` ends the connection after the answer. Use it if the request was not read to its end.
    """
    response = web.json_response({"error": text[:_LONGEST_TEXT], "status": status}, status=status)
    if close:
        response.force_close()
    return response


class Rejection(Exception):
    """A request or connection is rejected before a handler: its answer's status and text, and the cause for metrics.

    ``level`` and ``event`` are for its log line.
    """

    def __init__(
        self, status: int, cause: Cause, text: str, *, level: int = logging.INFO, event: str = "request turned away"
    ) -> None:
        super().__init__(text)
        self.status = status
        self.cause = cause
        self.level = level
        self.event = event


def reject(rejection: Rejection, counts: RejectedCounts, **facts: object) -> web.Response:
    """Count and log a rejection, and build its answer, after which the connection is closed."""
    counts[rejection.cause] += 1
    logger.log(rejection.level, "%s %s", rejection.event, fields(**facts, reason=rejection))
    response = error_response(rejection.status, str(rejection), close=True)
    if rejection.status == 503:
        response.headers["Retry-After"] = "1"
    return response


def log_answered(started: float, **facts: object) -> None:
    """Log an answered request at debug. ``started`` is `time.perf_counter` at its start."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("answered %s", fields(**facts, ms=round((time.perf_counter() - started) * 1000, 1)))


@functools.lru_cache(maxsize=1)
def _date_at(second: int) -> str:
    return formatdate(second, usegmt=True)


def write_head(status: str, *headers: str, closes: bool) -> bytes:
    """Write the head of an answer, for a connection that aiohttp does not answer."""
    last = ("Connection: close",) if closes else ()
    date = f"Date: {_date_at(int(time.time()))}"
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, date, *last, "", "")).encode()


def write_response(response: web.Response, *, closes: bool) -> bytes:
    """Write an answer as `write_head` does."""
    body = response.body if isinstance(response.body, bytes) else b""
    headers = [f"{name}: {value}" for name, value in response.headers.items() if name != "Content-Length"]
    status = f"{response.status} {response.reason}"
    return write_head(status, *headers, f"Content-Length: {len(body)}", closes=closes) + body


def respond_to_failure(error: Exception, **facts: object) -> web.Response:
    """Log a handler's exception and build its answer: 500, unless it is one of our errors with another status."""
    status = next((status for family, status in STATUS_BY_ERROR if isinstance(error, family)), 500)
    if status != 500:
        logger.info("request failed %s", fields(**facts, reason=error))
        response = error_response(status, str(error))
        if isinstance(error, errors.RetryableError):
            response.headers["Retry-After"] = str(max(1, math.ceil(error.delay_s or 1)))
        return response
    logger.error("request failed %s", fields(**facts, reason=error), exc_info=error)
    return error_response(500, "internal error; the server's log has the reason")


def respond_to_http(error: web.HTTPException, path: str) -> web.Response:
    """Convert aiohttp's own errors (no such path, wrong method) to our form, with headers such as Allow."""
    text = error.text or error.reason
    if text == f"{error.status}: {error.reason}":  # aiohttp's default text
        allowed = error.headers.get("Allow", "")
        ours = {404: f"no such path: {path[:200]!r}", 405: f"method not allowed; allowed: {allowed}"}
        text = ours.get(error.status, text)
    response = error_response(error.status, text)
    for name in ("Allow", "Retry-After", "WWW-Authenticate"):
        if name in error.headers:
            response.headers[name] = error.headers[name]
    return response
