"""Run a command that ends when whoever started it ends, however it ends: ``python -I -S tether.py COMMAND ...``.

A script on its own, without imports of ours, so that it costs milliseconds. Linux has the kernel watch the parent;
elsewhere the command just runs, and only an orderly end of the parent ends it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent = int(sys.argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the parent ended before its child could be tied to it")
    os.execv(sys.argv[2], sys.argv[2:])
