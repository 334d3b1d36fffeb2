"""Control-plane hosts: disks that tear and lose writes, their schedulers, and the real config-manager on each.

A run of its own, smaller than the other: what the scheduler then calls is not part of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.host.manifest_text import parse_manifest
from gcushare.config_manager.host.paths_and_record import SchedulerFile
from gcushare.config_manager.host.running_scheduler import WaitLimits
from gcushare.config_manager.manager import Manager
from gcushare.config_manager.manager_settings import ExtenderOptions, PlaceSettings
from gcushare.config_manager.node_reports import SharedConfigMap
from gcushare.config_manager.plan.execute import Executor
from gcushare.config_manager.reconcile import Reconciler, WantedMode, hold_lease
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.election import ApiLease
from simulation.disks import MANIFEST, TEXT, Disk, SchedulerOnHost
from simulation.host_schedule import HOSTS, HostSchedule
from simulation.loop import SimulatedLoop
from simulation.process import Process
from simulation.program import CONFIG, ProcessClock
from simulation.restarting import RestartingProgram
from simulation.schedule import Action
from simulation.world import World, play

LOOK_S = 0.2
"""Between two looks of the kubelets at their manifests, and until what was written is on the disk by itself."""
_KEPT = "/etc/kubernetes/scheduler.conf"


class _HostState(SharedConfigMap):
    """Reports through the API server; what the admin wants is said by the hosts."""

    def __init__(self, hosts: Hosts, client: KubeClient, node: str) -> None:
        super().__init__(client, ExtenderOptions(), "kube-system", node)
        self._hosts = hosts

    async def mode(self) -> WantedMode:
        return await self._hosts.mode()

    async def extender(self) -> ExtenderEntry:
        return await self._hosts.extender()


class HostManager(RestartingProgram):
    """config-manager on one host."""

    away_s = (0.5, 4.0)

    def __init__(self, hosts: Hosts, number: int) -> None:
        name = f"config-manager-{number}"
        super().__init__(hosts.world, name, random.Random(f"{hosts.schedule.seed}/{name}"))
        self.hosts = hosts
        self.disk = Disk(self.rng)
        self.disk.files[MANIFEST] = FileState(TEXT.encode(), 0o600, 0, 0)
        self.disk.files[_KEPT] = FileState(b"kubeconfig", 0o600, 0, 0)
        self.scheduler = SchedulerOnHost(self.disk, self.world.loop, self.rng, self.weather)
        self.disk.on_crash = self.scheduler.boot

    def _reset(self) -> None:
        self.disk.process = self.process

    async def _run(self, process: Process) -> None:
        clock = ProcessClock(self.world.loop, process)
        client = KubeClient(CONFIG, program="config", transport=self._transport(process))
        executor = Executor(
            files=self.disk,
            poll=self.scheduler.poll,
            systemd=self.scheduler,
            clock=clock,
            say=lambda _: None,
            limits=WaitLimits(timeout_s=180.0),
        )

        async def no_version(_: SchedulerFile | None) -> str | None:
            return None

        async def extender_answers(_: ExtenderEntry) -> None:
            await asyncio.sleep(0.01)
            if self.hosts.is_extender_away:
                raise RetryableError("the extender does not answer")

        lease = ApiLease(client, "kube-system", "gcushare-config-manager")
        rng = random.Random(self.rng.getrandbits(64))
        reconciler = Reconciler(
            manager=Manager(place=PlaceSettings(), executor=executor, find_version=no_version),
            cluster=_HostState(self.hosts, client, self.name),
            hold_lease=partial(hold_lease, lease, f"{self.name}.{self.starts}", clock=clock, rng=rng),
            clock=clock,
            interval_s=10.0,
            check_extender=extender_answers,
        )
        await reconciler.run()


class Hosts:
    """One run; also the desired state that every config-manager reads."""

    def __init__(self, schedule: HostSchedule) -> None:
        self.schedule = schedule
        self.rng = random.Random(f"hosts world/{schedule.seed}")
        self.world = World(self.rng, schedule.planted)
        self._loop, self._fail = self.world.loop, self.world.fail
        self.wanted = WantedMode.APPLY
        self.url = "http://10.96.1.37:32766"
        self.is_extender_away = False
        self.hosts = [HostManager(self, number) for number in range(HOSTS)]
        for host in self.hosts:
            host.disk.forgets_sync = schedule.planted == "forgets to sync"
            if schedule.planted == "unsafe order":
                host.disk.write = _out_of_order(host.disk, self._loop)  # type: ignore[method-assign,assignment]

    async def mode(self) -> WantedMode:
        """What the admin wants."""
        await asyncio.sleep(0.003)
        return self.wanted

    async def extender(self) -> ExtenderEntry:
        """How the extender is reached."""
        await asyncio.sleep(0.003)
        return ExtenderEntry(url=self.url, options=ExtenderOptions(vendor="enflame"))

    def run(self) -> None:
        """Execute the schedule. After each calm, every host must have the desired state."""
        play(self.world, self, self.schedule.actions, self.schedule.rounds)
        with self._loop.entered():
            for host in self.hosts:
                self._loop.kill(host.process)

    def start(self) -> None:
        """Start everyone."""
        for host in self.hosts:
            host.start()
        self._look()

    def _look(self) -> None:
        """Every kubelet reads its manifests, which must work."""
        restarting = 0
        for host in self.hosts:
            host.scheduler.sync()
            is_starting = self._loop.now_s < host.scheduler.ready_at_s and host.scheduler.starts > 1
            restarting += is_starting and not host.scheduler.is_booting
            if host.scheduler.problem:
                self._fail("every prefix leaves a scheduler that can start", f"{host.name}: {host.scheduler.problem}")
        if restarting > 1:
            self._fail("one scheduler of a cluster restarts at a time", f"{restarting} restart")
            host.disk.sync()
        self._loop.call_world(LOOK_S, self._look)

    def act(self, action: Action) -> None:
        """Do what an action says."""
        args, host = action.args, self.hosts[action.args["host"]]
        if action.kind not in ("mode", "url"):
            self.world.faults[action.kind] += 1
        match action.kind:
            case "kill":
                host.process.steps_to_live = args["steps"]
            case "pause":
                self._loop.pause(host.process)
                self._loop.call_world(args["for_s"], self._loop.resume, host.process)
            case "weather":
                host.disturb(args["odds"], args["for_s"])
            case "mode":
                self.wanted = WantedMode.RECOVER if self.wanted is WantedMode.APPLY else WantedMode.APPLY
            case "url":
                self.url = args["url"]
            case "extender away":
                self.is_extender_away = True
                self._loop.call_world(30.0, setattr, self, "is_extender_away", False)
            case disk_fault:
                host.disk.fault = disk_fault

    def calm(self) -> None:
        """End every fault."""
        self.world.note("calm")
        for host in self.hosts:
            host.disk.fault = ""
            host.calm()
            if host.process.is_paused:
                self._loop.resume(host.process)
            host.start()

    def check_settled(self) -> None:
        """Check that every host has the desired state, byte by byte where nothing of ours is, and no leftovers."""
        for host in self.hosts:
            files = host.disk.files
            text = files[MANIFEST].content.decode()
            flags = {flag.name: flag.value for flag in parse_manifest(text, MANIFEST).flags}
            if self.wanted is WantedMode.RECOVER:
                if text != TEXT:
                    self._fail("what is wanted comes about", f"{host.name} was not recovered: {text}")
                left = sorted(files.keys() - {MANIFEST, _KEPT})
                if left:
                    self._fail("nothing leaks", f"{host.name} still has {left}")
            else:
                config = files.get(flags.get("config", ""))
                if config is None or self.url not in config.content.decode():
                    self._fail("what is wanted comes about", f"{host.name} does not call {self.url}")
            torn = [path for path in files if path.endswith(".gcushare-tmp")]
            if torn:
                self._fail("nothing leaks", f"{host.name} still has {torn}")


def _out_of_order(disk: Disk, loop: SimulatedLoop) -> Callable[[str, FileState], None]:
    """A bug put in on purpose: the manifest reaches the disk before the configuration that it names."""
    write = disk.write

    def delayed(path: str, state: FileState) -> None:
        if b"KubeSchedulerConfiguration" not in state.content:
            write(path, state)
        else:
            loop.call_world(2.0, disk.files.__setitem__, path, state)

    return delayed
