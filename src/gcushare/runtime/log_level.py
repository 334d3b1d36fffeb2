"""Changes the log level of the program in this container, without a restart.

    python3 -m gcushare.runtime.log_level debug [PID ...]
    python3 -m gcushare.runtime.log_level configured [PID ...]

SIGUSR1 switches a program to debug lines, and SIGUSR2 back to its ``--log-level``. Use this command with ``kubectl
exec`` instead of sending the signals to process 1, which is the host's if the pod has ``hostPID``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gcushare.runtime.exit_codes import DONE, FAILED, MISUSED

_NONE = "no program of gcushare runs here: run this in its container (kubectl exec)\n"
SIGNALS = {"debug": signal.SIGUSR1, "configured": signal.SIGUSR2}


@contextmanager
def follow_signals(set_debug: Callable[[bool], None]) -> Iterator[None]:
    """Call ``set_debug`` on each of the two signals while the block runs.

    Effects: replaces the handlers of both, then restores them. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda received, _frame: set_debug(received == signal.SIGUSR1))
        for number in SIGNALS.values()
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find_programs(proc_root: Path = Path("/proc")) -> list[int]:
    """The other processes of this container that handle both signals. The signals would end any other process."""
    own_mounts = (proc_root / "self" / "ns" / "mnt").readlink()
    found = []
    for folder in proc_root.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            # Containers have different mount namespaces, even if they share the host's process ids.
            is_here = (folder / "ns" / "mnt").readlink() == own_mounts
            status = (folder / "status").read_bytes()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended, or belongs to another user
        caught = next((int(line[7:], 16) for line in status.splitlines() if line.startswith(b"SigCgt:")), 0)
        handles = all(caught >> (number - 1) & 1 for number in SIGNALS.values())
        if is_here and handles and b"gcushare" in command.replace(b"gpushare", b"gcushare"):
            found.append(int(folder.name))
    return sorted(found)


def main(arguments: Sequence[str], say: Callable[[str], object] = sys.stdout.write) -> int:
    """Run the command above; returns its exit code."""
    level, *pids = arguments or [""]
    if level not in SIGNALS or not all(pid.isdecimal() for pid in pids):
        say(f"expected {' or '.join(SIGNALS)}, and perhaps process ids, got {' '.join(arguments)!r}\n")
        return MISUSED
    programs = find_programs()
    chosen = [pid for pid in programs if not pids or str(pid) in pids]
    for pid in chosen:
        os.kill(pid, SIGNALS[level])
        say(f"process {pid} now writes the lines of level {level}\n")
    if not chosen:
        say(f"none of these is a program of gcushare here, which are {programs}\n" if pids else _NONE)
    return DONE if chosen else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
