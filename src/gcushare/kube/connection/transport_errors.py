"""Failures of the transport as errors of ours; apart from ``kube.errors``, which loads no HTTP client."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp

from gcushare.core.errors import ConfigError, GcushareError, RetryableError
from gcushare.kube.errors import Attempt, NotConnectedError, UnknownOutcomeError, describe


def error_of_transport(attempt: Attempt, failure: Exception) -> GcushareError:
    """Choose the error for a request that got no whole answer.

    A connection that was never made cannot have had an effect; anything later can, when the request writes.
    """
    if isinstance(failure, GcushareError):
        return failure
    text = f"{attempt.words} failed: {describe(failure)}"
    if isinstance(failure, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ConfigError(f"{text}; check the certificate authority and the server's address in the configuration")
    if isinstance(failure, aiohttp.InvalidURL | aiohttp.TooManyRedirects):
        return ConfigError(text)
    if isinstance(failure, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | NotConnectedError):
        return RetryableError(f"{text}; nothing was sent")
    if attempt.writes:
        return UnknownOutcomeError(f"{text}; it may have taken effect")
    return RetryableError(text)


TRANSPORT_FAILURES: tuple[type[Exception], ...] = (
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    asyncio.IncompleteReadError,
)
"""What aiohttp raises while connecting, sending and reading; ``error_of_transport`` makes each an error of ours."""
