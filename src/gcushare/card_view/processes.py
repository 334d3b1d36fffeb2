"""Which pod a process of this machine belongs to, by its control group: the kubelet writes the pod's uid into its name.

A pod's uid is unique in the world: a control group that carries it proves that process and pod are both here, also
where nobody knows from which machine the process ids came. Nothing is said where the uid is not found, nor within a
container, whose processes have numbers of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

PROC = Path("/proc")
_MAX_CGROUP_BYTES = 1 << 16
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The machine's own process namespace: the kernel's PROC_PID_INIT_INO, the same on every Linux."""


def find_owners(pids: Iterable[int], uids: Collection[str], proc: Path = PROC) -> dict[int, str]:
    """The uid of each process's pod, for those of which it is certain."""
    if not uids or not _is_on_host(proc):
        return {}
    # cgroupfs writes the uid as it is (pod5f3a-...), systemd with underscores (pod5f3a_....slice).
    words = {f"pod{spelling}": uid for uid in uids if uid for spelling in (uid, uid.replace("-", "_"))}
    found = {}
    for pid in pids:
        text = _read_cgroup(proc, pid)
        owners = {uid for word, uid in words.items() if word in text}
        if len(owners) == 1:
            found[pid] = owners.pop()
    return found


def _is_on_host(proc: Path) -> bool:
    try:
        return str((proc / "self" / "ns" / "pid").readlink()) == _FIRST_NAMESPACE
    except OSError:  # no Linux, or a /proc that hides it
        return False


def _read_cgroup(proc: Path, pid: int) -> str:
    """The control groups of a process; empty where there is none of this number, or it may not be looked at."""
    try:
        with (proc / str(pid) / "cgroup").open("rb") as file:
            return file.read(_MAX_CGROUP_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
