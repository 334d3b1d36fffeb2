"""A control-plane node for the tests: real files below a folder, a scheduler that behaves, a virtual clock."""

from __future__ import annotations

import asyncio
import errno
import json
import posixpath
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its C reader is ten times as fast as ruamel's

from gcushare.config_manager.host.files import FileState, HostFileError, HostFiles, temporary_path
from gcushare.config_manager.host.launch import ConfigTarget, HealthEndpoint
from gcushare.config_manager.host.manifest_text import parse_manifest
from gcushare.config_manager.host.paths_and_record import SchedulerFile
from gcushare.config_manager.host.running_scheduler import PollResult, Running, WaitLimits
from gcushare.config_manager.host.systemd_unit import SystemdError, parse_unit
from gcushare.config_manager.host.unit_files import find_unit
from gcushare.config_manager.manager import Manager
from gcushare.config_manager.manager_settings import ExtenderOptions, PlaceSettings
from gcushare.config_manager.plan.execute import Executor
from gcushare.config_manager.reconcile import State, WantedMode
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls
from gcushare.config_manager.scheduler_config.versions import parse_version
from gcushare.core.errors import RetryableError
from gcushare.kube.clock import Clock
from gcushare.wire.flags import Flag
from tests.unit.cut_off import CutOff, Ended

MANIFESTS = Path(__file__).parent / "manifests"
CORPUS = tuple(sorted(path.name for path in MANIFESTS.iterdir()))


def each_of(cases: Sequence[Any]) -> list[Any]:
    """All of them for ``parametrize``; `make test` takes every fourth, because YAML is read slowly."""
    arguments = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=pytest.mark.slow if number % 4 else ()) for number, each in enumerate(arguments)]


EACH_OF_CORPUS = each_of(CORPUS)

MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
UNIT = "/etc/systemd/system/kube-scheduler.service"
CONFIG = "/etc/kubernetes/scheduler-extender-config-v1.23+.yaml"
POLICY = "/etc/kubernetes/scheduler-extender-config.json"
"""The manager's own files, a configuration or a policy by the scheduler's version."""

TEMPORARY = ".gcushare-tmp"
"""How the names of files end that are not written to their end."""

OWN_FILES = frozenset({CONFIG})
TARGET = ConfigTarget("config", CONFIG, "0123456789")
OWN_DIRECTORY = "/etc/kubernetes/gcushare"
EXTENDER = ExtenderEntry(url="http://10.96.1.37:32766", options=ExtenderOptions(vendor="enflame"))
MOVED_EXTENDER = ExtenderEntry(url="http://10.96.200.8:32766", options=ExtenderOptions(vendor="enflame"))
TLS_EXTENDER = ExtenderEntry(
    url="https://10.96.1.37:32766",
    options=ExtenderOptions(vendor="enflame"),
    tls=ExtenderTls(ca=b"-----BEGIN CERTIFICATE-----\n", certificate=b"-----BEGIN C\n", key=b"-----BEGIN KEY\n"),
)

ADMIN_CONFIG = """\
# ours, keep the order
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled:   # we pack
      - name: NodeResourcesBalancedAllocation
- schedulerName: batch
extenders:
- urlPrefix: http://10.0.0.5:9000/volumes   # storage team
  filterVerb: filter
  weight: 3
"""
ADMIN_POLICY = json.dumps(
    {"kind": "Policy", "apiVersion": "v1", "priorities": [{"name": "LeastRequestedPriority", "weight": 2}]}, indent=2
)


@lru_cache(maxsize=64)
def load_yaml(text: str) -> dict[str, Any]:
    """Load the first document, as Go's reader does; callers must not change the value, which is cached."""
    if text.startswith("{"):  # JSON has escapes that this reader of YAML does not know
        return dict(json.JSONDecoder().raw_decode(text)[0])
    # It refuses tabs behind a value, which the kubelet's skips.
    loaded: dict[str, Any] = next(iter(yaml.load_all(text.replace("\t", " "), yaml.CSafeLoader)), {})
    return loaded


SETUP_FILES = Path(__file__).parent.parent / "scheduler_setups"
KUBEASZ: str = load_yaml((SETUP_FILES / "kubeasz.yaml").read_text())["files"][UNIT]


class ManualClock:
    """Time that passes only when somebody sleeps; with a ``gate`` not before that is open."""

    def __init__(self, gate: asyncio.Event | None = None) -> None:
        self.seconds = 1000.0
        self.waiting = asyncio.Event()
        self._gate = gate

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    async def sleep(self, delay_s: float) -> None:
        self.waiting.set()
        if self._gate is not None:
            await self._gate.wait()
        self.seconds += delay_s
        # Others run while one waits, as on a real loop.
        await asyncio.sleep(0)


class BreakingFiles(HostFiles):
    """Real files that break: ``fail`` is asked before each change with its number, from 1, and its path."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.fail: Callable[[int, str], None] = lambda _number, _path: None
        self.after: Callable[[], None] = lambda: None
        self.changes = 0

    def write(self, path: str, state: FileState) -> None:
        with self._change(path):
            super().write(path, state)

    def replace(self, source: str, target: str) -> None:
        with self._change(target):
            super().replace(source, target)

    def remove(self, path: str) -> None:
        with self._change(path):
            super().remove(path)

    @contextmanager
    def _change(self, path: str) -> Iterator[None]:
        self.changes += 1
        self.fail(self.changes, path)
        yield
        self.after()


@dataclass
class SchedulerDouble:
    """A kubelet (or systemd) and its scheduler: restarts when the manifest's pod changes, refuses a bad configuration.

    ``refuses`` makes it end after start on configurations that hold this text, as a real one does on one it cannot use.
    """

    root: Path
    target: str
    refuses: str = ""
    starts: int = 0
    arguments: tuple[str, ...] = ()
    config: bytes = b""
    """What the running scheduler read when it started."""
    on_start: Callable[[], None] = lambda: None
    problem: str = ""
    on_poll: Callable[[], None] = lambda: None
    """Asked before each look; raises where what runs cannot be known."""
    shows: PollResult | None = None
    """What a look shows in place of the scheduler that the files start."""
    _seen: str = ""
    _pod: str = ""

    @property
    def is_unit(self) -> bool:
        return self.target.endswith(".service")

    async def poll(self, endpoint: HealthEndpoint) -> PollResult:
        if not self.is_unit and self.shows is None:
            self._sync()
        self.on_poll()
        if self.shows is not None:
            return self.shows
        if self.problem:
            return PollResult(None, self.problem)
        return PollResult(Running(f"scheduler-{self.starts}", self.arguments), "")

    def start(self) -> None:
        """Start it as the files are, before anything of ours is done."""
        if self.is_unit:
            self._start()
        else:
            self._sync()

    async def reload(self) -> None:
        self.parsed()

    async def restart(self, unit: str) -> None:
        if unit != self.target:
            raise SystemdError(f"no unit {unit!r}")
        self._start()

    def _sync(self) -> None:
        """As the kubelet: only what the pod is counts, not comments or the file's time."""
        if self.text() == self._seen:
            return
        self._seen = self.text()
        pod = json.dumps(load_yaml(self.text()), sort_keys=True, default=str)
        if pod != self._pod:
            self._pod = pod
            self._start()

    def _start(self) -> None:
        self.starts += 1
        self.problem = self.find_start_problem()
        file = self.parsed()
        words = [f"--{flag.name}={flag.value}" for flag in file.flags]
        self.arguments = ("kube-scheduler", *words)
        # Of a flag that is given twice, what the last one names.
        read = {flag.name: path for flag, path in self._configurations() if path is not None}
        self.config = b"".join(path.read_bytes() for path in read.values())
        self.on_start()

    def _configurations(self) -> Iterator[tuple[Flag, Path | None]]:
        """The flags that name a configuration, each with the file; None if there is none."""
        file = self.parsed()
        for flag in file.flags:
            if flag.name in ("config", "policy-config-file") and flag.value:
                host = file.host_path(posixpath.normpath(posixpath.join(file.directory, flag.value)))
                path = None if host is None else self.root / host[1:]
                yield flag, path if path is not None and path.is_file() else None

    def text(self) -> str:
        return (self.root / self.target[1:]).read_bytes().decode("utf-8-sig")

    def parsed(self) -> SchedulerFile:
        if not self.is_unit:
            return parse_manifest(self.text(), "manifest")
        path, around = find_unit(HostFiles(self.root), self.target)
        return parse_unit((self.root / path[1:]).read_bytes().decode(), path, around)

    def find_start_problem(self) -> str:
        """Say why a scheduler started by the file, as it is now, would not come up; empty when it would."""
        problems = [] if self.is_unit else [self._find_volume_problem()]
        for flag, path in self._configurations():
            gone = f"--{flag.name}={flag.value} does not exist"
            problems.append(gone if path is None else self._find_config_problem(path.read_text()))
        return next(filter(None, problems), "")

    def _find_volume_problem(self) -> str:
        pod = load_yaml(self.text())
        names = [volume["name"] for volume in pod["spec"].get("volumes") or []]
        mounts = [m for c in pod["spec"]["containers"] for m in c.get("volumeMounts") or []]
        if len(set(names)) != len(names) or not {mount["name"] for mount in mounts} <= set(names):
            return "volumes and mounts do not fit"
        for volume in pod["spec"].get("volumes") or []:
            source = volume.get("hostPath") or {}
            if source.get("type") == "File" and not (self.root / source["path"][1:]).is_file():
                return f"hostPath {source['path']} is not a file"
        return ""

    def _find_config_problem(self, text: str) -> str:
        config = load_yaml(text)
        binders = [one for one in config.get("extenders") or [] if one.get("bindVerb")]
        if len(binders) > 1:
            return "only one extender can implement bind"
        managed = [each["name"] for one in config.get("extenders") or [] for each in one.get("managedResources") or []]
        if len(set(managed)) != len(managed):
            return "duplicate extender managed resource name"
        return f"kube-scheduler ended: bad {self.refuses}" if self.refuses and self.refuses in text else ""


@dataclass
class Host:
    """One node."""

    root: Path
    target: str = MANIFEST
    restart: bool = True
    version: str | None = None
    given_version: str | None = None
    """``--scheduler-version``; ``version`` is what is found out."""
    manifest: str | None = None
    directory: str | None = None
    lines: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=ManualClock)
    scheduler: SchedulerDouble = field(init=False)
    files: BreakingFiles = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = SchedulerDouble(self.root, self.target)
        self.heal()
        for folder in ("etc/kubernetes/manifests", "etc/systemd/system", "srv/scheduler"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.put("/srv/scheduler/scheduler.yaml", ADMIN_CONFIG)
        self.put("/srv/scheduler/policy.json", ADMIN_POLICY)

    def copied(self, root: Path) -> Host:
        """A node in another folder that is where this one is now, on whole files."""
        twin = replace(self, root=root, lines=[], clock=ManualClock())
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        twin.scheduler = replace(self.scheduler, root=root)
        return twin

    def heal(self) -> None:
        self.files = BreakingFiles(self.root)

    def crash_at(self, at: int | CutOff) -> None:
        """Have the process end at this change from here, in the middle of writing the temporary file."""
        cut_off = CutOff(at) if isinstance(at, int) else at

        def fail(_number: int, path: str) -> None:
            try:
                with cut_off.write():
                    pass
            except Ended:
                # Where the next run takes a torn file away, it writes none.
                if not path.endswith(TEMPORARY):
                    (self.root / temporary_path(path)[1:]).write_bytes(b"torn")
                raise

        self.heal()
        self.files.fail = fail

    def fill_disk_at(self, at: int) -> None:
        """Have this change from here find the disk full."""

        def fail(number: int, path: str) -> None:
            if number == at:
                raise HostFileError("write", path, OSError(errno.ENOSPC, "ENOSPC"))

        self.heal()
        self.files.fail = fail

    @property
    def manual_clock(self) -> ManualClock:
        assert isinstance(self.clock, ManualClock)
        return self.clock

    @property
    def manager(self) -> Manager:
        async def no_version(_target: SchedulerFile | None) -> str | None:
            return self.version

        is_unit = self.target.endswith(".service")
        executor = Executor(
            files=self.files,
            poll=self.scheduler.poll,
            systemd=self.scheduler,
            clock=self.clock,
            say=self.lines.append,
            limits=WaitLimits(timeout_s=180.0, interval_s=2.5),
        )
        place = PlaceSettings(
            files_dir=self.directory,
            unit=self.target if is_unit else None,
            manifest=self.manifest if not is_unit else None,
            scheduler_version=None if self.given_version is None else parse_version(self.given_version),
        )
        return Manager(place=place, executor=executor, find_version=no_version, restart=self.restart)

    def put(self, path: str, content: str | bytes, mode: int = 0o600) -> None:
        place = self.root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        place.chmod(mode)

    def get(self, path: str) -> bytes:
        return (self.root / path[1:]).read_bytes()

    def tree(self) -> dict[str, tuple[bytes, int]]:
        """Every file with its mode."""
        files = [path for path in sorted(self.root.rglob("*")) if path.is_file() and not path.is_symlink()]
        return {str(path.relative_to(self.root)): (path.read_bytes(), path.stat().st_mode & 0o7777) for path in files}

    async def apply(self, extender: ExtenderEntry = EXTENDER) -> list[str]:
        """Apply and return the lines that it printed."""
        self.lines.clear()
        await self.manager.carry_out(await self.manager.prepare_apply(extender))
        return list(self.lines)

    async def recover(self) -> list[str]:
        self.lines.clear()
        await self.manager.carry_out(await self.manager.prepare_recover())
        return list(self.lines)


def corpus_text(name: str) -> bytes:
    return (MANIFESTS / name).read_bytes()


def host_with(root: Path, name: str) -> Host:
    """Make a node whose scheduler is started by a manifest of the corpus, under the name it would really have."""
    target = MANIFEST if not name.endswith(".json") else MANIFEST.replace(".yaml", ".json")
    host = Host(root, target=target)
    host.put(target, corpus_text(name))
    for volume in load_yaml(corpus_text(name).decode("utf-8-sig"))["spec"].get("volumes") or []:
        if volume["hostPath"].get("type") == "File":
            host.put(volume["hostPath"]["path"], "")
    return host


def host_in_own_directory(root: Path) -> Host:
    """Make a node whose manager has a directory of its own, and nothing in it."""
    host = host_with(root, "kubeadm-1.29.yaml")
    host.directory = OWN_DIRECTORY
    (root / OWN_DIRECTORY[1:]).mkdir()
    return host


def systemd_host(root: Path, *, version: str = "v1.23.1", restart: bool = True) -> Host:
    """Make a node whose scheduler is started by systemd."""
    host = Host(root, target=UNIT, version=version, restart=restart)
    host.put(UNIT, KUBEASZ)
    return host


@dataclass
class Cluster:
    """What all nodes of a cluster are asked for, and what each reported."""

    wanted: WantedMode = WantedMode.APPLY
    extender: ExtenderEntry = EXTENDER
    is_down: bool = False
    reported: dict[str, list[tuple[State, str]]] = field(default_factory=dict)


@dataclass
class Member:
    """One node's port to its cluster."""

    cluster: Cluster
    name: str = "cp-1"
    is_cut: Callable[[], bool] = lambda: False

    async def mode(self) -> WantedMode:
        self._reach()
        return self.cluster.wanted

    async def extender(self) -> ExtenderEntry:
        self._reach()
        return self.cluster.extender

    async def report(self, state: State, reason: str) -> None:
        self._reach()
        reported = self.cluster.reported.setdefault(self.name, [])
        if reported[-1:] != [(state, reason)]:
            reported.append((state, reason))

    def _reach(self) -> None:
        if self.cluster.is_down or self.is_cut():
            raise RetryableError("the API server does not answer")
