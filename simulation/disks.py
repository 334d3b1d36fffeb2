"""A control-plane host: a disk that tears and loses writes, and the scheduler that its kubelet starts from it."""

from __future__ import annotations

import asyncio
import errno
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from ruamel.yaml import YAML

from gcushare.config_manager.host.files import FileState, HostFileError, HostFiles, temporary_path
from gcushare.config_manager.host.launch import HealthEndpoint
from gcushare.config_manager.host.manifest_text import parse_manifest
from gcushare.config_manager.host.paths_and_record import SchedulerFile
from gcushare.config_manager.host.running_scheduler import PollResult, Running, SchedulerUnknownError
from gcushare.core.errors import GcushareError
from simulation.loop import SimulatedLoop
from simulation.process import Killed, Process
from simulation.weather import Fate, Weather

_BEFORE = ("torn", "rename lost", "crash before")
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
TEXT = """\
apiVersion: v1
kind: Pod
metadata:
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --kubeconfig=/etc/kubernetes/scheduler.conf   # the admin's own words
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.2
    name: kube-scheduler
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
  hostNetwork: true
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
"""


@dataclass
class Disk(HostFiles):
    """One host's files in memory. ``fault`` strikes the next change, most of them as the machine goes down.

    Every change is on the disk when its call returns, as with the real ones, which sync the directory. With
    ``forgets_sync`` it is not, until a later moment: what the machine's end takes back then is drawn for each.
    """

    rng: random.Random
    process: Process | None = None
    fault: str = ""
    forgets_sync: bool = False
    files: dict[str, FileState] = field(default_factory=dict)
    unsynced: dict[str, FileState | None] = field(default_factory=dict)
    """What stood at paths before the changes that are not on the disk yet; None where there was no file."""
    on_crash: Callable[[], None] = lambda: None
    """The machine goes down and comes up again."""

    def read(self, path: str) -> FileState | None:
        """Read a file."""
        self._require()
        return self.files.get(path)

    def link(self, path: str) -> str | None:
        return None

    def check(self, path: str) -> None:
        self._require()

    def names(self, directory: str) -> tuple[str, ...]:
        """List a directory."""
        self._require()
        return tuple(sorted(path.rpartition("/")[2] for path in self.files if path.rpartition("/")[0] == directory))

    def write(self, path: str, state: FileState) -> None:
        """A temporary file, its content to the disk, the rename, the directory to the disk."""
        fault = self._take_fault(path)
        if fault == "torn":
            torn = state.content[: self.rng.randrange(len(state.content) or 1)]
            self.files[temporary_path(path)] = FileState(torn, 0o600, 0, 0)
        if fault == "rename lost":
            # The name was not on the disk yet: the file is there by its temporary one.
            self.files[temporary_path(path)] = state
        if fault in _BEFORE:
            self._crash(path)
        self._change(path, state)
        if fault == "crash after":
            self._crash(path)

    def replace(self, source: str, target: str) -> None:
        """Rename."""
        fault = self._take_fault(target)
        if fault in _BEFORE:
            self._crash(target)
        if source in self.files:
            moved = self.files[source]
            self._change(source, None)
            self._change(target, moved)
        if fault == "crash after":
            self._crash(target)

    def remove(self, path: str) -> None:
        """Remove."""
        fault = self._take_fault(path)
        if fault in _BEFORE:
            self._crash(path)
        self._change(path, None)
        if fault == "crash after":
            self._crash(path)

    def sync(self) -> None:
        """What was changed is on the disk now."""
        self.unsynced.clear()

    def _require(self) -> None:
        if self.process is not None:
            self.process.require_alive()

    def _take_fault(self, path: str) -> str:
        self._require()
        fault, self.fault = self.fault, ""
        if fault == "full":
            raise HostFileError("write", path, OSError(errno.ENOSPC, "No space left on device"))
        return fault

    def _change(self, path: str, state: FileState | None) -> None:
        if self.forgets_sync:
            self.unsynced.setdefault(path, self.files.get(path))
        if state is None:
            self.files.pop(path, None)
        else:
            self.files[path] = state

    def _crash(self, path: str) -> NoReturn:
        for lost, before in sorted(self.unsynced.items()):
            if self.rng.random() < 0.5:
                if before is None:
                    self.files.pop(lost, None)
                else:
                    self.files[lost] = before
        self.unsynced.clear()
        if self.process is not None:
            self.process.steps_to_live = 0
        self.on_crash()
        raise Killed(path)


@dataclass
class SchedulerOnHost:
    """The kubelet's static pod: starts again when the manifest's pod changes, and cannot where files are missing."""

    disk: Disk
    loop: SimulatedLoop
    rng: random.Random
    weather: Weather
    """Between this host and the API server, over which it is seen."""
    starts: int = 0
    text: str = ""
    pod: str = ""
    words: tuple[str, ...] = ()
    problem: str = ""
    ready_at_s: float = 0.0
    is_booting: bool = False
    """Whether it starts because its machine did, which is no one's doing."""

    def boot(self) -> None:
        """The machine came up again: the scheduler starts from what is on its disk."""
        self.text = self.pod = ""
        self.sync()
        self.is_booting = True

    def sync(self) -> None:
        """The kubelet looks at the manifest."""
        state = self.disk.files.get(MANIFEST)
        text = "" if state is None else state.content.decode()
        if text == self.text:
            return
        self.text = text
        pod = json.dumps(YAML(typ="safe").load(text), sort_keys=True, default=str) if text else ""
        if pod != self.pod:
            self.pod = pod
            self.starts += 1
            self.is_booting = False
            self.ready_at_s = self.loop.now_s + 1.0 + 5.0 * self.rng.random()
            self.problem = self.find_problem(text)

    def find_problem(self, text: str) -> str:
        """Why a scheduler started from a manifest would not come up."""
        if not text:
            return "there is no manifest"
        try:
            file: SchedulerFile = parse_manifest(text, MANIFEST)
        except GcushareError as error:
            return str(error)
        self.words = ("kube-scheduler", *(f"--{flag.name}={flag.value}" for flag in file.flags))
        for flag in file.flags:
            if flag.name == "config":
                host = file.host_path(flag.value)
                found = None if host is None else self.disk.files.get(host)
                if found is None:
                    return f"{flag.value} does not exist"
                if not isinstance(YAML(typ="safe").load(found.content.decode()), dict):
                    return f"{flag.value} is torn"
        return ""

    async def poll(self, endpoint: HealthEndpoint) -> PollResult:
        """A ``PollScheduler``, which asks the API server for the mirror pod."""
        await asyncio.sleep(0.005)
        if (fate := self.weather.fate()) is not Fate.FINE:
            raise SchedulerUnknownError(fate.value)
        if self.loop.now_s < self.ready_at_s:
            return PollResult(None, "it does not answer")
        return (
            PollResult(None, self.problem)
            if self.problem
            else PollResult(Running(f"run-{self.starts}", self.words), "")
        )

    async def reload(self) -> None:
        """There is no systemd."""

    async def restart(self, unit: str) -> None:
        """There is no systemd."""
