"""Control-plane hosts: disks that tear and lose writes, their schedulers, and the real config-manager on each.

A world of its own, smaller than the other: what the scheduler then calls is not part of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.host.launch import SchedulerFile
from gcushare.config_manager.host.static_pod import parse_manifest
from gcushare.config_manager.kubernetes import ApiReports, ApiRolloutLease
from gcushare.config_manager.manager import Manager
from gcushare.config_manager.plan.execute import Executor
from gcushare.config_manager.reconcile import Mode, Reconciler
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.settings import PlaceSettings
from gcushare.core.errors import RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.election import ApiLease
from gcushare.runtime.shutdown import Shutdown
from gcushare.vendors import VENDORS_BY_NAME
from simulation.apiserver import ApiServer
from simulation.disks import MANIFEST, TEXT, Disk, SchedulerOnHost
from simulation.loop import START_S, Process, SimulatedLoop
from simulation.programs import CONFIG, ProcessClock
from simulation.store import Change, Store
from simulation.transport import Gateway, SimulatedTransport
from simulation.weather import Odds, Weather

HOSTS = 3
CALM_S = 1100.0
"""A change that was rolled back, as by a full disk, is tried again after 900 s; then a crashed holder's Lease is
waited out."""
_KEPT = "/etc/kubernetes/scheduler.conf"


class HostManager:
    """config-manager on one host."""

    def __init__(self, world: HostsWorld, number: int) -> None:
        self.world = world
        self.name = f"config-manager-{number}"
        self.rng = random.Random(f"{world.seed}/{self.name}")
        self.disk = Disk(self.rng)
        self.disk.files[MANIFEST] = FileState(TEXT.encode(), 0o600, 0, 0)
        self.disk.files[_KEPT] = FileState(b"kubeconfig", 0o600, 0, 0)
        self.scheduler = SchedulerOnHost(self.disk, world.loop, self.rng)
        self.weather = Weather(self.rng, world.faults)
        self.process = Process(self.name)
        self.process.is_alive = False
        self.starts = 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process.is_alive:
            return
        self.starts += 1
        process = self.process = Process(self.name, offset_s=self.rng.uniform(0, 1e5))
        self.disk.process = process
        process.on_end[0] = lambda: self.world.gateway.drop(process)
        self.world.note(f"{self.name} starts")
        self.world.loop.create_task(self._live(process), context=process.context)

    async def _live(self, process: Process) -> None:
        world = self.world
        clock = ProcessClock(world.loop, process)
        client = KubeClient(
            CONFIG, program="config", transport=SimulatedTransport(world.gateway, process, self.weather)
        )
        executor = Executor(
            files=self.disk, probe=self.scheduler, systemd=self.scheduler, clock=clock, say=lambda _: None
        )

        async def no_version(_: SchedulerFile) -> str | None:
            return None

        async def extender_answers(_: ExtenderEntry) -> None:
            await asyncio.sleep(0.01)
            if world.is_extender_away:
                raise RetryableError("the extender does not answer")

        lease = ApiLease(client, "kube-system", "gcushare-config-manager")
        rng = random.Random(self.rng.getrandbits(64))
        reconciler = Reconciler(
            manager=Manager(place=PlaceSettings(), executor=executor, find_version=no_version),
            desired=world,
            reports=ApiReports(client, "kube-system", self.name),
            lease=ApiRolloutLease(lease, f"{self.name}.{self.starts}", clock=clock, rng=rng),
            clock=clock,
            check_extender=extender_answers,
        )
        try:
            await reconciler.run(Shutdown())
        except Exception as error:
            if not process.is_alive:
                return
            world.fail("no process ends by any input", f"{self.name} ended: {type(error).__name__}: {error}")


class HostsWorld:
    """One run; also the desired state that every config-manager reads."""

    def __init__(self, seed: int, *, unsafe_order: bool = False) -> None:
        self.seed = seed
        self.rng = random.Random(f"hosts/{seed}")
        self.faults: Counter[str] = Counter()
        self.violations: list[str] = []
        self.history: list[str] = []
        self.loop = SimulatedLoop(lambda words: self.fail("no process ends by any input", words))
        self.store = Store(self._changed)
        self.gateway = Gateway(self.loop, ApiServer(self.store, self.rng.randrange))
        self.wanted = Mode.APPLY
        self.url = "http://10.96.1.37:32766"
        self.is_extender_away = False
        self.hosts = [HostManager(self, number) for number in range(HOSTS)]
        if unsafe_order:
            for host in self.hosts:
                host.disk.write = _out_of_order(host.disk, self.loop)  # type: ignore[method-assign,assignment]

    async def mode(self) -> Mode:
        """What the admin wants; a ``DesiredState``."""
        await asyncio.sleep(0.003)
        return self.wanted

    async def extender(self) -> ExtenderEntry:
        """How the extender is reached."""
        await asyncio.sleep(0.003)
        return ExtenderEntry(url=self.url, vendors=(VENDORS_BY_NAME["enflame"],))

    def note(self, words: str) -> None:
        """Write into the history."""
        self.history.append(f"{self.loop.now_s - START_S:9.3f}  {words}")

    def fail(self, invariant: str, words: str) -> None:
        """Take note of what must not be."""
        self.note(f"VIOLATION of {invariant!r}: {words}")
        self.violations.append(f"{invariant}: {words}")
        self.loop.is_stopped = True

    @property
    def digest(self) -> str:
        """What happened, in one number."""
        return hashlib.blake2b("\n".join(self.history).encode(), digest_size=16).hexdigest()

    def run(self, rounds: int = 3, storm_s: float = 600.0) -> None:
        """Live through storms, each followed by calm."""
        self._within(self._start)
        for _ in range(rounds):
            end_s = self.loop.now_s + storm_s
            while self.loop.now_s < end_s and not self.loop.is_stopped:
                self.loop.run(min(end_s, self.loop.now_s + self.rng.expovariate(1 / 12.0)))
                self._within(self._strike)
            self._within(self._calm)
            if not self.loop.is_stopped:
                self.loop.run(self.loop.now_s + CALM_S)
            self._within(self._check)
        self._within(self._close)

    def _within(self, do: Callable[[], None]) -> None:
        if not self.loop.is_stopped or do == self._close:
            with self.loop.entered():
                do()

    def _start(self) -> None:
        for host in self.hosts:
            host.start()
        self._look()

    def _close(self) -> None:
        for host in self.hosts:
            self.loop.kill(host.process)

    def _look(self) -> None:
        """Every kubelet looks at its manifests; what it would start from must do."""
        restarting = 0
        for host in self.hosts:
            if host.disk.process is not None and not host.disk.process.is_alive:
                self.loop.call_world(self.rng.uniform(0.5, 20.0), self._start_one, host)
            host.scheduler.sync()
            restarting += self.loop.now_s < host.scheduler.ready_at_s and host.scheduler.starts > 1
            if host.scheduler.problem:
                self.fail("every prefix leaves a scheduler that can start", f"{host.name}: {host.scheduler.problem}")
        if restarting > 1:
            self.fail("one scheduler of a cluster restarts at a time", f"{restarting} restart")
        self.loop.call_world(0.2, self._look)

    def _start_one(self, host: HostManager) -> None:
        host.start()

    def _strike(self) -> None:
        host = self.rng.choice(self.hosts)
        kind = self.rng.choice(["full", "torn", "crash", "kill", "kill", "pause", "weather", "weather", "mode", "url",
                                "extender away"])  # fmt: skip
        self.note(f"> {kind} {host.name}")
        if kind not in ("mode", "url"):
            self.faults[kind] += 1
        match kind:
            case "full" | "torn" | "crash":
                host.disk.fault = kind
            case "kill":
                host.process.steps_to_live = self.rng.choice([1, 2, 3, 5, 8, 20])
            case "pause":
                paused = host.process
                self.loop.pause(paused)
                self.loop.call_world(self.rng.choice([1.0, 15.0, 60.0]), self.loop.resume, paused)
            case "weather":
                odds = self.rng.choice([Odds(lost_before=0.3), Odds(lost_after=0.4), Odds(refused=1.0),
                                        Odds(unavailable=0.5), Odds(slow_s=4.0)])  # fmt: skip
                host.weather.begin(self.loop.steps, odds)
                self.loop.call_world(self.rng.uniform(1.0, 60.0), host.weather.clear)
            case "mode":
                self.wanted = Mode.RECOVER if self.wanted is Mode.APPLY else Mode.APPLY
            case "url":
                self.url = f"http://10.96.1.{self.rng.randrange(200)}:32766"
            case _:
                self.is_extender_away = True
                self.loop.call_world(30.0, setattr, self, "is_extender_away", False)

    def _calm(self) -> None:
        self.note("calm")
        for host in self.hosts:
            host.disk.fault = ""
            host.weather.clear()
            if host.process.is_paused:
                self.loop.resume(host.process)
            host.process.steps_to_live = None
            if not host.process.is_alive:
                host.start()

    def _check(self) -> None:
        """Every host is as wanted, to the byte where nothing of ours is; nothing is left beside it."""
        for host in self.hosts:
            files = host.disk.files
            text = files[MANIFEST].content.decode()
            flags = {flag.name: flag.value for flag in parse_manifest(text, MANIFEST).flags}
            if self.wanted is Mode.RECOVER:
                if text != TEXT:
                    self.fail("what is wanted comes about", f"{host.name} was not recovered: {text}")
                left = sorted(files.keys() - {MANIFEST, _KEPT})
                if left:
                    self.fail("nothing leaks", f"{host.name} still has {left}")
            else:
                config = files.get(flags.get("config", ""))
                if config is None or self.url not in config.content.decode():
                    self.fail("what is wanted comes about", f"{host.name} does not call {self.url}")
            torn = [path for path in files if path.endswith(".gcushare-tmp")]
            if torn:
                self.fail("nothing leaks", f"{host.name} still has {torn}")

    def _changed(self, change: Change) -> None:
        self.note(f"api: {change.kind.lower()} {change.new.plural} {change.new.key[1]} by {change.by}")
        self.gateway.publish(change)


def _out_of_order(disk: Disk, loop: SimulatedLoop) -> Callable[[str, FileState], None]:
    """A bug put in on purpose: the manifest reaches the disk before the configuration that it names."""
    write = disk.write

    def delayed(path: str, state: FileState) -> None:
        if b"KubeSchedulerConfiguration" not in state.content:
            write(path, state)
        else:
            loop.call_world(2.0, disk.files.__setitem__, path, state)

    return delayed
