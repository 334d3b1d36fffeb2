"""A process that does not end when it is killed, as one in a call that hangs inside the driver.

The tracer of a process learns of its end before the parent does: until the tracer waits for it, the process stays.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_TRACER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_SEIZE = 0x4206
failed = libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None)
print(ctypes.get_errno() if failed else 0, flush=True)
sys.stdin.read()
"""


@contextmanager
def unkillable(pid: int) -> Iterator[None]:
    """Keep a process from ending inside the block; skip the test if this machine does not allow tracing."""
    command = [sys.executable, "-c", _TRACER, str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdin is not None
        assert tracer.stdout is not None
        if int(tracer.stdout.readline()):
            pytest.skip("no process may be traced here: run as root, or set kernel.yama.ptrace_scope to 0")
        try:
            yield
        finally:
            tracer.stdin.close()
