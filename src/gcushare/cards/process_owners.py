"""Which pod a process of this machine belongs to: reads /proc, where the kubelet's control groups carry the pods' uids.

The kernel reuses process ids, so a result holds only for the process with the same start time. Inside a container,
where processes have other ids, nothing is reported.

The kubelet makes one control group per pod and writes the pod's uid into its name, whichever runtime fills it:

- cgroupfs: ``/kubepods/burstable/pod<uid>/<container>``;
- systemd: ``.../kubepods-burstable-pod<uid, - as _>.slice/cri-containerd-<container>.scope``, with the kubelet's
  ``--cgroup-root`` before it (``kubelet-kubepods-...``), and ``...slice:cri-containerd:<container>`` of a runtime that
  was configured with another driver than the kubelet;
- a static pod's uid is the 32 hex digits of its manifest's hash, without dashes.

Source: man 7 cgroups; kubelet ``pkg/kubelet/cm/pod_container_manager_linux.go`` and ``cgroup_manager_linux.go``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

PROC = Path("/proc")
MAX_PROCESSES = 4096
"""The most processes of one call: sixteen cards of the 256 processes that a library lists at most."""
_MAX_TEXT_BYTES = 1 << 16
"""A path of version 1 has at most 4 KiB, and there are a dozen of them."""
_START_TIME = 19
"""Place of field 22 among those behind the name, which may contain blanks and brackets: man 5 proc_pid_stat."""
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The machine's own process namespace: the kernel's PROC_PID_INIT_INO, the same on every Linux."""


class ProcessOwners:
    """Finds the pods of processes in a /proc. It blocks for a moment: call it off the event loop, from one thread.

    Bounds: at most ``MAX_PROCESSES`` processes per call, the lowest numbers first. A process that is known costs one
    read of some hundred bytes, another one three, of at most 64 KiB; known is one entry per process that was asked for
    last. 256 processes take some 16 ms when they are new and 6 ms from then on (benchmarks/bench_process_owners.py).
    """

    def __init__(self, root: Path = PROC) -> None:
        self._root = root
        self._known: dict[int, tuple[str, str]] = {}
        self.outsiders: frozenset[int] = frozenset()
        """The processes of the last call of ``find`` that run and that are of no pod, as far as can be read."""

    def problem(self) -> str:
        """Why no process's pod can be found here; empty if they can."""
        link = self._root / "self" / "ns" / "pid"
        try:
            namespace = str(link.readlink())
        except OSError as error:  # no Linux, or a /proc that hides it
            return f"the process namespace cannot be read from {str(link)!r}: {error.strerror}"
        if namespace != _FIRST_NAMESPACE:
            return f"process ids are those of a container here ({namespace}), not the host's: set hostPID: true"
        return ""

    def running_pods(self) -> frozenset[str] | None:
        """The uids of the pods that have processes on this machine, on a card or not; None if that is unknown.

        Reads one file per process, so it is for rare questions: a thousand processes take some 40 ms of CPU.
        """
        if self.problem():
            return None
        try:
            pids = [int(each.name) for each in self._root.iterdir() if each.name.isdecimal()]
        except OSError:  # as for problem(): a /proc that hides it
            return None
        found = (find_pod_uid(self._read(pid, "cgroup")) for pid in pids)
        return frozenset(uid for uid in found if uid is not None)

    def find(self, pids: Collection[int]) -> Mapping[int, str]:
        """The uid of each process's pod, without processes that ended, cannot be read or belong to no pod."""
        if self.problem():
            return {}
        asked = sorted(set(pids))
        outsiders = set(asked[MAX_PROCESSES:])
        # Processes of no pod are not remembered: a process may be moved into its pod's group after its start.
        known, self._known = self._known, {}
        for pid in asked[:MAX_PROCESSES]:
            started = self._start_time(pid)
            if started is None:
                continue
            if pid in known and known[pid][0] == started:
                self._known[pid] = known[pid]
                continue
            uid = find_pod_uid(self._read(pid, "cgroup"))
            # Between the two reads the id may have passed to another process, and the group would be of that one.
            if self._start_time(pid) != started:
                continue
            if uid is None:
                outsiders.add(pid)
            else:
                self._known[pid] = (started, uid)
        self.outsiders = frozenset(outsiders)
        return {pid: uid for pid, (_, uid) in self._known.items()}

    def _start_time(self, pid: int) -> str | None:
        fields = self._read(pid, "stat").rpartition(")")[2].split()
        return fields[_START_TIME] if len(fields) > _START_TIME else None

    def _read(self, pid: int, name: str) -> str:
        try:
            with (self._root / str(pid) / name).open("rb") as file:
                return file.read(_MAX_TEXT_BYTES).decode("utf-8", errors="replace")
        except OSError:
            return ""


_UID = r"(?P<uid>[0-9a-f]{8}(?P<dash>[-_]?)[0-9a-f]{4}(?:(?P=dash)[0-9a-f]{4}){2}(?P=dash)[0-9a-f]{12})"
_PLACE = re.compile(
    rf"(?P<words>(?:.*-)?kubepods(?:-burstable|-besteffort)?-)?pod{_UID}(?:\.slice)?(?::.*| \(deleted\))?", re.ASCII
)
"""A pod's part of a path. Behind a ":" follow runtime and container, " (deleted)" follows what was removed already."""
_ABOVE = re.compile(r"(?:.*/kubepods|(?:/\.\.)+)(?:/burstable|/besteffort)?", re.ASCII)
"""What is above a part without the kubelet's words: its root and a class, or the way up from another of its groups."""
_OF_USERS = "user.slice"
"""Groups below it are made by people who log in, under any name."""


def find_pod_uid(text: str) -> str | None:
    """Find the uid of the pod that a process belongs to, as the API server writes it; None for one of no pod.

    The outermost pod counts: the groups below it are made within the pod, by any process that may write there. A pod's
    group is one of the kubelet's own tree. Version 1 has a line per hierarchy; if lines name different pods, the result
    is None.
    """
    found: set[str] = set()
    for line in text.split("\n"):  # not splitlines: a name may contain what Unicode takes for the end of a line
        # A line is ``hierarchy:controllers:path``. A path seen from another namespace begins with ``/../``.
        parts = line.split(":", 2)[-1].split("/")
        for at, part in enumerate(parts):
            match = _PLACE.fullmatch(part)
            if part == _OF_USERS:
                break
            if match is not None and (match["words"] or _ABOVE.fullmatch("/".join(parts[:at]))):
                found.add(match["uid"].replace("_", "-"))
                break
    return found.pop() if len(found) == 1 else None
