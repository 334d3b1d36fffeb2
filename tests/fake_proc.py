"""A folder that looks like the host's /proc to code that asks which pod owns a process."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path

HOST = "pid:[4026531836]"
_STAT = (
    "{pid} ({name}) S 1 {pid} {pid} 0 -1 4194560 1 0 0 0 2 3 0 0 20 0 1 0 {started} 8192 250 18446744073709551615 0\n"
)


class FakeProc:
    """Processes come with ``start`` and go with ``end``; each start has a time of its own."""

    def __init__(self, root: Path, namespace: str = HOST) -> None:
        self.root = root
        self._times = itertools.count(1000)
        (root / "self" / "ns").mkdir(parents=True)
        (root / "self" / "ns" / "pid").symlink_to(namespace)

    def start(self, pid: int, cgroup: str, *, name: str = "python3") -> None:
        """Start a process, in the place of one of the same number."""
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(cgroup)
        self.start_again(pid, name=name)

    def start_again(self, pid: int, *, name: str = "python3") -> None:
        """Give a number to another process of the same control group."""
        (self.root / str(pid) / "stat").write_text(_STAT.format(pid=pid, name=name, started=next(self._times)))

    def start_in_pod(self, pid: int, uid: str) -> None:
        """Start a process in a container of a pod."""
        self.start(pid, cgroup_of(uid))

    def end(self, pid: int) -> None:
        shutil.rmtree(self.root / str(pid))


def cgroup_of(uid: str) -> str:
    """The control group of a container, as systemd names it, seen from within another pod's."""
    group = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    return f"0::/../../../kubepods-burstable.slice/{group}/cri-containerd-8c1f{'0' * 60}.scope\n"


def make_proc(root: Path, groups: Mapping[int, str]) -> Path:
    """A /proc with the control groups of some processes."""
    proc = FakeProc(root)
    for pid, text in groups.items():
        proc.start(pid, text)
    return root
