"""How a source of cards fails: whose fault, in which call, with which code of the vendor."""

from __future__ import annotations

from typing import Protocol

import msgspec

from gcushare.core.errors import DeviceError
from gcushare.wire.untrusted_json import Int


class Ending(Protocol):
    """A process that was killed; it runs on while it is stuck inside the driver."""

    @property
    def pid(self) -> int: ...

    @property
    def is_running(self) -> bool: ...


class LibraryNotOpenError(DeviceError):
    """The vendor's library cannot be opened now: no card can be asked, and none is at fault."""


class LibraryMissingError(LibraryNotOpenError):
    """The vendor's library is not installed, or the loader refuses it."""


class CardMovedError(DeviceError):
    """The library was opened again and numbers its cards otherwise: this one can be asked after the next list."""

    def __init__(self, index: int, uuid: str) -> None:
        super().__init__(f"card {index} ({uuid}) is elsewhere in the library's new list; it is asked at the next look")


class CallFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error code of a vendor's library; what is added here also passes from a worker to its parent."""

    call: str
    code: Int
    code_name: str
    detail: str = ""
    is_unsupported: bool = False
    """The card or library does not have this function; that does not make the card sick."""
    is_lost: bool = False
    """The library no longer reaches the card."""


class LibraryCallError(DeviceError):
    """A function of the vendor's library answered with an error code."""

    def __init__(self, failure: CallFailure) -> None:
        detail = f": {failure.detail}" if failure.detail else ""
        super().__init__(f"{failure.call} failed with {failure.code_name} ({failure.code}){detail}")
        self.failure = failure


class WorkerLostError(DeviceError):
    """A call cost the process that holds the vendor's library; ``process`` is that one, once it was asked to end."""

    def __init__(self, call: str, end: str) -> None:
        super().__init__(f"library call {call} {end}")
        self.call = call
        self.end = end
        self.process: Ending | None = None


class CallHungError(WorkerLostError):
    """A call into the vendor's library outlived its deadline; the process that made it was killed."""

    def __init__(self, call: str, timeout_s: float) -> None:
        super().__init__(call, f"did not return within {timeout_s:g}s")


class WorkerDiedError(WorkerLostError):
    """The process that holds the vendor's library ended by itself: the library crashed it, or somebody killed it."""

    def __init__(self, how: str, call: str) -> None:
        super().__init__(call, f"ended its process with {how}")


class NoSourceError(DeviceError):
    """None of the sources that were tried has cards; the message says why for each."""
