"""The name of the last library call, in memory that outlives the process that made it.

The worker writes it before each call, its parent reads it after a hang or a crash: who is to blame, at the price of a
copy of 64 bytes per call.
"""

from __future__ import annotations

import mmap
import os

_NAME_BYTES = 64
_NO_CALL = "(before the first)"


class CallRecorder:
    """One name in a shared memory file. The parent creates it, the worker opens it by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _NAME_BYTES)

    @staticmethod
    def create_file() -> int:
        """Create the shared file; the caller closes the descriptor once worker and recorder have it."""
        descriptor = os.memfd_create("gcushare-call", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _NAME_BYTES)
        return descriptor

    def note(self, name: str) -> None:
        """Write the name of the call that is about to be made; cut to 64 bytes."""
        self._memory[:] = name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0")

    def last(self) -> str:
        """The name that was written last."""
        return self._memory[:].rstrip(b"\0").decode(errors="replace") or _NO_CALL

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
