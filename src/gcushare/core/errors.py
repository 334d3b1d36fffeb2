"""The project's errors, grouped by what the caller can do about them.

Every message says what failed, shows the offending value with ``repr``, names what is accepted and what to do.
"""

from __future__ import annotations


class GcushareError(Exception):
    """Root of every error that this project raises on purpose. ``hint`` is what to do about it at a terminal."""

    hint = ""


class ConfigError(GcushareError):
    """A setting, file or argument is wrong: fix it and start again. Carries every problem found, not just the first."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class ContractError(GcushareError):
    """A peer or a document broke a protocol's contract."""


class RemoteContractError(ContractError):
    """What came from outside (a request, an annotation, a device id) is malformed; nothing was changed."""


class RetryableError(GcushareError):
    """The same call may succeed later. ``delay_s`` is the shortest useful wait in seconds; None: the caller chooses."""

    def __init__(self, message: str, *, delay_s: float | None = None) -> None:
        super().__init__(message)
        self.delay_s = delay_s


class ConflictError(GcushareError):
    """The object changed since it was read: read it again and decide again."""


class NotFoundError(GcushareError):
    """The object named does not exist."""


class ForbiddenError(GcushareError):
    """The caller lacks a right on the API server. Grant it; retrying does not help."""

    hint = (
        "the line above names the verb and the resource that are missing: have them granted, or run this as a user who "
        "may; 'kubectl auth can-i --list' shows what you may do"
    )


class DeviceError(GcushareError):
    """A card or its vendor's library failed."""


class Refused(GcushareError):
    """A valid request that cannot be granted; the message is the reason a person reads."""
