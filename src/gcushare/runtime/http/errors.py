"""How an error becomes an HTTP answer: one table from our error families to status codes, one JSON shape for all."""

from __future__ import annotations

import logging
import math

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

log = logging.getLogger(__name__)

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

NO_MEMORY = "too many large requests at once, try again later"
CUT_FOR_OTHERS = "the request's body came slower than others that needed its memory, try again later"
"""The texts of a 503, for whoever turns a body away."""


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


def respond_to(error: GcushareError) -> web.Response:
    """Build the answer to an error of ours; 500 for those that no client can do anything about."""
    status = status_for(error)
    response = error_response(status, str(error))
    if isinstance(error, RetryableError):
        response.headers["Retry-After"] = str(max(1, math.ceil(error.delay_s or 1)))
    return response


def respond_to_failure(error: Exception, facts: object) -> web.Response:
    """Build the answer to whatever a handler raised, and log it; what is no refusal of ours becomes a 500."""
    if isinstance(error, GcushareError) and status_for(error) != 500:
        log.info("request failed %s", facts)
        return respond_to(error)
    log.error("request failed %s", facts, exc_info=error)
    return error_response(500, "internal error; the server's log has the reason")


def respond_to_http(error: web.HTTPException, path: str) -> web.Response:
    """Bring aiohttp's own errors (no such path, wrong method) into our shape, keeping headers such as Allow."""
    text = error.text or error.reason
    if text == f"{error.status}: {error.reason}":  # no one gave a text: aiohttp made this one up
        allowed = error.headers.get("Allow", "")
        text = {404: f"no such path: {path[:200]!r}", 405: f"method not allowed; allowed: {allowed}"}.get(
            error.status, text
        )
    response = error_response(error.status, text)
    for name in ("Allow", "Retry-After", "WWW-Authenticate"):
        if name in error.headers:
            response.headers[name] = error.headers[name]
    return response
