"""Gives a program that is not root its own log directory on the host. The extender's init container runs it as root.

    python3 -m gcushare.runtime.log_directory DIRECTORY PROGRAM UID

``DIRECTORY`` stays owned by root, so that no other user can write where programs with root write their logs.
``PROGRAM`` gets its own subdirectory, and ``PROGRAM.log`` becomes a link to the log in it. An existing file with that
name, for example of the Go gcushare, is rotated to ``.1``.

Problems are printed but do not fail: scheduling must not stop because a log cannot be written. Needs only the
capability CHOWN.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gcushare.core.errors import GcushareError
from gcushare.runtime.log_file import rotate
from gcushare.runtime.safe_directory import SafeDirectory, UnsafePathError, open_directory

_MODE = 0o755
_ROTATED = 4
"""As many as a program keeps of its own."""


def prepare(directory: Path, program: str, uid: int) -> None:
    """Create the directories and the link as described above. Repeatable.

    Raises:
        UnsafePathError: another user owns one of them, or replaced it with something else.
        OSError: a step failed.
    """
    with open_directory(directory.parent) as above:
        above.give(directory.name, os.geteuid(), _MODE)
    with open_directory(directory) as logs:
        if logs.status(program) is None:
            logs.make_directory(program)
        logs.give(program, uid, _MODE)
        _link(logs, program)


def _link(logs: SafeDirectory, program: str) -> None:
    name, target = f"{program}.log", f"{program}/{program}.log"
    found = logs.status(name)
    if found is not None and stat.S_ISLNK(found.st_mode):
        if logs.read_link(name) == target:
            return
        logs.remove(name)
    elif found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        # The log of a previous program, which wrote here as root, stays readable under the next name.
        rotate(logs, name, _ROTATED)
    elif found is not None:
        raise UnsafePathError(f"{logs.shown(name)!r} is in the way of a link to {target!r}: move it away")
    logs.link(name, target)


def main(arguments: Sequence[str], say: Callable[[str], object] = sys.stdout.write) -> int:
    directory, program, uid = arguments
    try:
        prepare(Path(directory), program, int(uid))
    except (OSError, GcushareError) as error:
        say(f"{program} may not be able to write its log in {directory}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
