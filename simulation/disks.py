"""A control-plane host: a disk that tears and loses writes, and the scheduler that its kubelet starts from it."""

from __future__ import annotations

import asyncio
import errno
import json
import random
from dataclasses import dataclass, field

from ruamel.yaml import YAML

from gcushare.config_manager.host.files import FileState, HostFileError, temporary_path
from gcushare.config_manager.host.launch import HealthEndpoint, SchedulerFile
from gcushare.config_manager.host.probe import Running, Sighting
from gcushare.config_manager.host.static_pod import parse_manifest
from gcushare.core.errors import GcushareError
from simulation.loop import Killed, Process, SimulatedLoop

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
class Disk:
    """One host's files in memory; ``Files``. ``fault`` strikes the next change: full, torn, or a crash before it."""

    rng: random.Random
    process: Process | None = None
    fault: str = ""
    struck: int = 0
    files: dict[str, FileState] = field(default_factory=dict)

    def read(self, path: str) -> FileState | None:
        """Read a file."""
        self._require()
        return self.files.get(path)

    def names(self, directory: str) -> tuple[str, ...]:
        """List a directory."""
        self._require()
        return tuple(sorted(path.rpartition("/")[2] for path in self.files if path.rpartition("/")[0] == directory))

    def write(self, path: str, state: FileState) -> None:
        """A temporary file, its content to the disk, the rename, the directory to the disk."""
        self._strike(path, state.content)
        self.files[path] = state

    def replace(self, source: str, target: str) -> None:
        """Rename."""
        self._strike(target, b"")
        if source in self.files:
            self.files[target] = self.files.pop(source)

    def remove(self, path: str) -> None:
        """Remove."""
        self._strike(path, b"")
        self.files.pop(path, None)

    def _require(self) -> None:
        if self.process is not None:
            self.process.require_alive()

    def _strike(self, path: str, content: bytes) -> None:
        self._require()
        fault, self.fault = self.fault, ""
        if not fault:
            return
        self.struck += 1
        if fault == "full":
            raise HostFileError("write", path, OSError(errno.ENOSPC, "No space left on device"))
        if fault == "torn" and content:
            torn = content[: self.rng.randrange(len(content))]
            self.files[temporary_path(path)] = FileState(torn, 0o600, 0, 0)
        # The machine goes down: a rename that its directory had not taken to the disk is lost with it.
        if self.process is not None:
            self.process.steps_to_live = 0
        raise Killed(path)


@dataclass
class SchedulerOnHost:
    """The kubelet's static pod: starts again when the manifest's pod changes, and cannot where files are missing."""

    disk: Disk
    loop: SimulatedLoop
    rng: random.Random
    starts: int = 0
    text: str = ""
    pod: str = ""
    words: tuple[str, ...] = ()
    problem: str = ""
    ready_at_s: float = 0.0

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

    async def look(self, endpoint: HealthEndpoint) -> Sighting:
        """A ``SchedulerProbe``."""
        await asyncio.sleep(0.005)
        if self.loop.now_s < self.ready_at_s:
            return Sighting(None, "it does not answer")
        return Sighting(None, self.problem) if self.problem else Sighting(Running(f"run-{self.starts}", self.words), "")

    async def reload(self) -> None:
        """There is no systemd."""

    async def restart(self, unit: str) -> None:
        """There is no systemd."""
