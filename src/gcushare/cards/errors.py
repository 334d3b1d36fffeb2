"""How a source of cards fails: which part failed, in which call, with which code of the vendor."""

from __future__ import annotations

import msgspec

from gcushare.core.errors import DeviceError
from gcushare.wire.untrusted_json import Int


class LibraryNotOpenError(DeviceError):
    """The vendor's library is missing or cannot be opened now, which says nothing about the health of cards."""


class CallFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error code of a vendor's library. New fields also pass from a worker to its parent."""

    call: str
    code: Int
    code_name: str = ""
    """"" where only the library itself knows what its codes mean, and says it in ``detail``."""
    detail: str = ""
    is_unsupported: bool = False
    """The card or library does not have this function, which does not make the card unhealthy."""
    is_lost: bool = False
    """The library no longer reaches the card."""


class LibraryCallError(DeviceError):
    """A function of the vendor's library answered with an error code."""

    def __init__(self, failure: CallFailure) -> None:
        detail = f": {failure.detail}" if failure.detail else ""
        code = f"{failure.code_name} ({failure.code})" if failure.code_name else f"code {failure.code}"
        super().__init__(f"{failure.call} failed with {code}{detail}")
        self.failure = failure
