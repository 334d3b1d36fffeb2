"""Run a command that ends with its parent process, even if that is killed: ``python -I -S tether.py COMMAND ...``.

It is a script without imports of ours, so it takes only milliseconds. On Linux the kernel watches the parent. On other
systems, the command ends only if the parent ends it.
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
