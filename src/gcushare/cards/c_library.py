"""Calls into a C library through ctypes. Each is announced before it is made.

From the announcement, the parent of a worker that hangs or crashes reports which function it was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gcushare.cards.errors import CallFailure, LibraryCallError, LibraryNotOpenError
from gcushare.cards.ports import CallObserver

V = TypeVar("V", bound="ctypes._SimpleCData[Any] | ctypes.Structure")

_PROCESS_SLOTS = 256
"""Entries for processes. EFML fills at most 64 (MAX_PROCESS_COUNT); room for a library that grows."""


def find_library(patterns: Sequence[str]) -> Path | None:
    """Return the first existing file of ``patterns``, which may hold ``*``; the newest name wins within one pattern."""
    for pattern in patterns:
        anchor, rest = Path(pattern).anchor, pattern.lstrip("/")
        found = sorted(path for path in Path(anchor or ".").glob(rest) if path.is_file())
        if found:
            return found[-1]
    return None


class CLibrary:
    """One loaded shared object.

    Raises (constructor):
        LibraryNotOpenError: the loader cannot load ``path``; the message has the loader's text.
    """

    def __init__(self, path: str, observe: CallObserver) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise LibraryNotOpenError(f"{path!r} cannot be loaded: {error}") from error
        self._observe = observe
        self.path = path

    def exports(self, name: str) -> bool:
        return hasattr(self._library, name)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function that returns the vendor's int code; 0 is success. ``name`` must be exported."""
        function = self._library[name]
        function.restype = ctypes.c_int
        self._observe(name)
        code: int = function(*arguments)
        return code

    def call_text(self, name: str, *arguments: object) -> str:
        """Call a function that returns a C string; "" for NULL."""
        function = self._library[name]
        function.restype = ctypes.c_char_p
        self._observe(name)
        text: bytes | None = function(*arguments)
        return decode_text(text or b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTable:
    """What a family's error codes mean; ``not_exported`` is for a function that the library does not have."""

    not_exported: int
    unsupported: frozenset[int]
    lost: frozenset[int] = frozenset()


class CheckedCalls:
    """Calls whose codes become ``LibraryCallError``; ``explain`` asks the library to describe a code.

    Each method raises it if the function failed. Only for ``call`` a function that is not supported has failed.
    """

    def __init__(self, library: CLibrary, codes: CodeTable, explain: Callable[[int], str]) -> None:
        self._library = library
        self._codes = codes
        self._explain = explain

    def call(self, name: str, *arguments: object) -> None:
        code = self._library.call(name, *arguments) if self._library.exports(name) else self._codes.not_exported
        if code != 0:
            raise LibraryCallError(
                CallFailure(
                    name,
                    code,
                    detail=self._explain(code),
                    is_unsupported=code in self._codes.unsupported,
                    is_lost=code in self._codes.lost,
                )
            )

    def is_answered(self, name: str, *arguments: object) -> bool:
        """As ``query``, for a call that fills a buffer: False if it is not supported."""
        try:
            self.call(name, *arguments)
        except LibraryCallError as error:
            if error.failure.is_unsupported:
                return False
            raise
        return True

    def query(self, name: str, *arguments: object, into: V) -> V | None:
        """Make a call that fills ``into``, its last argument; None if it is not supported."""
        return into if self.is_answered(name, *arguments, ctypes.byref(into)) else None

    def count(self, name: str, no_device: int) -> int:
        """Ask how many devices there are; 0 for the code ``no_device``."""
        count = ctypes.c_uint32()
        try:
            self.call(name, ctypes.byref(count))
        except LibraryCallError as error:
            if error.failure.code == no_device:
                return 0
            raise
        return count.value

    def processes(self, name: str, device: object, entry: type[ctypes.Structure]) -> dict[int, int] | None:
        """List the processes of a device, from entries with ``pid`` and ``used_bytes``; None if not supported."""
        entries = (entry * _PROCESS_SLOTS)()
        count = ctypes.c_uint32(_PROCESS_SLOTS)
        if not self.is_answered(name, device, ctypes.byref(count), entries):
            return None
        return {each.pid: each.used_bytes for each in entries[: min(count.value, _PROCESS_SLOTS)]}


def decode_text(raw: bytes) -> str:
    """Read a C string from a buffer, whatever bytes the driver put there."""
    return raw.split(b"\0", 1)[0].decode("utf-8", errors="replace").strip()
