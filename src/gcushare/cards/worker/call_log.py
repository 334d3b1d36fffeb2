"""The name of the last library call, in shared memory that outlives the worker.

The worker writes it before each call, and its parent reads it after a hang or a crash to report which function it was.
That costs a copy of 64 bytes per call.
"""

from __future__ import annotations

import mmap
import os

_NAME_BYTES = 64
_NO_CALL = "(before the first)"


class CallRecorder:
    """One name in a shared memory file, which the parent creates and the worker opens by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _NAME_BYTES)

    @staticmethod
    def create_file() -> int:
        """Create the shared file; close its descriptor once the worker and the recorder have opened it."""
        descriptor = os.memfd_create("gcushare-call", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _NAME_BYTES)
        return descriptor

    def record(self, name: str) -> None:
        """Write the name of the next call, cut to 64 bytes."""
        self._memory[:] = name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0")

    def last_call(self) -> str:
        return self._memory[:].rstrip(b"\0").decode(errors="replace") or _NO_CALL

    def close(self) -> None:
        self._memory.close()
