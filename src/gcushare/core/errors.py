"""The project's errors, grouped by what whoever catches them can do.

Every message says what failed, shows the offending value with ``repr``, names what is accepted and what to do.
"""

from __future__ import annotations


class GcushareError(Exception):
    """Root of every error that this project raises on purpose."""


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
    """The same call may succeed later; ``delay_s`` is the least useful wait, None when the caller should choose."""

    def __init__(self, message: str, *, delay_s: float | None = None) -> None:
        super().__init__(message)
        self.delay_s = delay_s


class ConflictError(GcushareError):
    """The object changed meanwhile: read it again and decide again."""


class NotFoundError(GcushareError):
    """The object named does not exist."""


class ForbiddenError(GcushareError):
    """The API server refused the caller's rights: grant them, retrying does not help."""


class DeviceError(GcushareError):
    """A card, or the vendor's library that speaks for it, failed."""


class Refused(GcushareError):
    """A valid request that cannot be granted; the message is the reason a person reads."""
