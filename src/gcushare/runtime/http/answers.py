"""Every HTTP answer that the server itself gives: to errors, to what it turns away, and the log lines about both.

Both ways that a request may take (``request_gate`` and ``scheduler_fast_path``) and the connections below them use
these, so that no client can tell which way its request took.
"""

from __future__ import annotations

import logging
import math
import time

from aiohttp import web

from gcushare.core.errors import (
    ConflictError,
    ForbiddenError,
    GcushareError,
    NotFoundError,
    Refused,
    RemoteContractError,
    RetryableError,
)
from gcushare.core.log_fields import fields
from gcushare.runtime.http.rejected import Cause, RejectedCounts

logger = logging.getLogger(__name__)

# First match wins, so a family stands before its root. What is not listed is our own fault: 500, without details.
STATUS_BY_ERROR: tuple[tuple[type[GcushareError], int], ...] = (
    (RemoteContractError, 400),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (Refused, 422),
    (RetryableError, 503),
)

_LONGEST_TEXT = 2000


def status_for(error: GcushareError) -> int:
    """Return the HTTP status of an error that a handler let through."""
    return next((status for family, status in STATUS_BY_ERROR if isinstance(error, family)), 500)


def error_response(status: int, text: str, *, close: bool = False) -> web.Response:
    """Build the one shape of every error: ``{"error": ..., "status": ...}``.

    Args:
        status: the HTTP status.
        text: one sentence for people, cut to a bound; never a stack.
        close: end the connection after the answer, for requests that were not read to their end.
    """
    response = web.json_response({"error": text[:_LONGEST_TEXT], "status": status}, status=status)
    if close:
        response.force_close()
    return response


class TurnedAway(Exception):
    """A request or a connection that no handler gets: the status and text of its answer, and the cause for metrics.

    ``level`` and ``event``: its log line.
    """

    def __init__(
        self, status: int, cause: Cause, text: str, *, level: int = logging.INFO, event: str = "request turned away"
    ) -> None:
        super().__init__(text)
        self.status = status
        self.cause = cause
        self.level = level
        self.event = event


def body_too_slow(limit_s: float) -> TurnedAway:
    """The body did not arrive in time."""
    return TurnedAway(408, Cause.SLOW, f"the request's body did not arrive within {limit_s:g}s")


def body_too_large(size: str, largest: int) -> TurnedAway:
    """The body has, or would have, more bytes than its path accepts."""
    return TurnedAway(413, Cause.SIZE, f"the request's body has {size}; accepted: at most {largest} bytes")


def no_memory() -> TurnedAway:
    """The memory for bodies is used up."""
    return TurnedAway(503, Cause.MEMORY, "too many large requests at once, try again later")


def body_cut() -> TurnedAway:
    """The memory of a body that was still arriving went to others."""
    text = "the request's body came slower than others that needed its memory, try again later"
    return TurnedAway(503, Cause.MEMORY, text)


def turn_away(away: TurnedAway, counts: RejectedCounts, **facts: object) -> web.Response:
    """Count and log what no handler gets, and build its answer, after which the connection ends."""
    counts[away.cause] += 1
    logger.log(away.level, "%s %s", away.event, fields(**facts, reason=away))
    response = error_response(away.status, str(away), close=True)
    if away.status == 503:
        response.headers["Retry-After"] = "1"
    return response


def log_answered(started: float, **facts: object) -> None:
    """Write the line of a request that was answered, at debug. ``started``: `time.perf_counter` at its start."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("answered %s", fields(**facts, ms=round((time.perf_counter() - started) * 1000, 1)))


def write_response(response: web.Response, *more: str) -> bytes:
    """Write an answer as bytes, for a connection that aiohttp does not answer. ``more``: further header lines."""
    body = response.body if isinstance(response.body, bytes) else b""
    lines = [
        f"HTTP/1.1 {response.status} {response.reason}",
        *(f"{name}: {value}" for name, value in response.headers.items() if name != "Content-Length"),
        f"Content-Length: {len(body)}",
        *more,
    ]
    return "\r\n".join((*lines, "", "")).encode() + body


def respond_to_failure(error: Exception, **facts: object) -> web.Response:
    """Log what a handler raised and build its answer: a 500 for anything but an error of ours with another status."""
    if isinstance(error, GcushareError) and (status := status_for(error)) != 500:
        logger.info("request failed %s", fields(**facts, reason=error))
        response = error_response(status, str(error))
        if isinstance(error, RetryableError):
            response.headers["Retry-After"] = str(max(1, math.ceil(error.delay_s or 1)))
        return response
    logger.error("request failed %s", fields(**facts, reason=error), exc_info=error)
    return error_response(500, "internal error; the server's log has the reason")


def respond_to_http(error: web.HTTPException, path: str) -> web.Response:
    """Bring aiohttp's own errors (no such path, wrong method) into our shape, keeping headers such as Allow."""
    text = error.text or error.reason
    if text == f"{error.status}: {error.reason}":  # aiohttp's own text, because its raiser gave none
        allowed = error.headers.get("Allow", "")
        ours = {404: f"no such path: {path[:200]!r}", 405: f"method not allowed; allowed: {allowed}"}
        text = ours.get(error.status, text)
    response = error_response(error.status, text)
    for name in ("Allow", "Retry-After", "WWW-Authenticate"):
        if name in error.headers:
            response.headers[name] = error.headers[name]
    return response
