"""Writes to the API server that must arrive: repeated until accepted, or pointless."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gcushare.core.backoff import doubled_s
from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError

logger = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 2.0

_Result = TypeVar("_Result")


def delay_s(attempt: int) -> float:
    """Return the wait after the n-th failure, counted from 0: doubled each time up to a bound."""
    return doubled_s(_FIRST_DELAY_S, _LONGEST_DELAY_S, attempt)


async def until_accepted(call: Callable[[], Awaitable[_Result]], *, what: str) -> _Result | None:
    """Repeat a call until the server accepts it; None when it never will: the object is gone, or is another one now."""
    attempt = 0
    while True:
        try:
            return await call()
        except (RetryableError, ForbiddenError) as error:
            logger.log(
                logging.WARNING if attempt == 0 else logging.DEBUG, "write failed what=%s reason=%s", what, error
            )
            await asyncio.sleep(delay_s(attempt))
            attempt += 1
        except GcushareError as error:
            logger.info("write given up what=%s reason=%s", what, error)
            return None
