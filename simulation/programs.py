"""The real programs, each in a process of the simulated world: the one place that knows how they are put together."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from gcushare.core.cards import Inventory
from gcushare.core.errors import GcushareError, RetryableError
from gcushare.core.placement import NamedNodes
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.settings import CardSettings, KubeletSettings, PluginSettings
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.runtime.http.rejected import Cause
from gcushare.runtime.http.scheduler_fast_path import FAST_PATHS, FastPathHandler
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.http.tls import CertificateEnd
from gcushare.runtime.settings.groups import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.scheduler_extender.app import Extender
from gcushare.scheduler_extender.dashboard.settings import DashboardSettings
from gcushare.scheduler_extender.settings import ElectionSettings, ExtenderSettings, FollowSettings, PlacementSettings
from gcushare.scheduler_extender.state.vendor_state import VendorState
from simulation.cards import Machine, SimulatedSource
from simulation.kubelet import Kubelet
from simulation.kubelet_record import KubeletRecord
from simulation.loop import SimulatedLoop
from simulation.process import Process
from simulation.sockets import SimulatedSockets
from simulation.transport import SimulatedTransport
from simulation.weather import Weather

if TYPE_CHECKING:
    from simulation.world import World

log = logging.getLogger(__name__)

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = KubeConfig("https://simulated:6443", "the simulation", namespace="kube-system")
_NOWHERE = Path("/nonexistent/simulation")


class ProcessClock:
    """The clocks of one process."""

    def __init__(self, loop: SimulatedLoop, process: Process) -> None:
        self._loop = loop
        self._process = process

    def monotonic(self) -> float:
        """Its monotonic clock, which may go a little fast or slow."""
        return self._process.offset_s + self._process.rate * self._loop.now_s

    def now(self) -> datetime:
        """Its wall clock, which may be wrong."""
        return _EPOCH + timedelta(seconds=self._loop.now_s + self._process.wall_offset_s)

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        await asyncio.sleep(delay_s)


class _Server(RunningServer):
    """A server without a socket: the world calls its handlers."""

    def __init__(self) -> None:
        self.host, self.port = "simulated", 0
        self.is_listening = True

    @property
    def connection_count(self) -> int:
        return 0

    @property
    def busy_count(self) -> int:
        return 0

    @property
    def rejected(self) -> dict[Cause, int]:
        return {}

    @property
    def certificate_ends(self) -> tuple[CertificateEnd, ...]:
        return ()

    @property
    def url(self) -> str:
        return "http://simulated"

    async def stop(self, drain_s: float) -> None:
        """Stop answering."""
        self.is_listening = False

    async def probe(self, path: str = "/healthz") -> str | None:
        """It is not probed."""
        return None


class Program:
    """One program's life: started, stopped with grace, killed, started again. ``name`` is what the history calls it."""

    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.weather = Weather(rng, world.faults)
        self.process = Process(name)
        self.is_up = False
        self.starts = 0
        self._shutdown: Shutdown | None = None
        world.weathers[name] = self.weather

    def start(self) -> None:
        """Start a new process."""
        if self.is_up:
            return
        self.is_up = True
        self.starts += 1
        rng, settings = self.rng, self.world.settings
        self.process = Process(
            self.name,
            rate=1.0 + settings.clock_drift * rng.uniform(-1, 1),
            offset_s=rng.uniform(0, 1e6),
            wall_offset_s=settings.wall_skew_s * rng.uniform(-1, 1),
        )
        process = self.process
        process.on_end[0] = lambda: self.world.gateway.drop(process)
        self.world.note(f"{self.name} starts")
        self.process.context.run(self._build)
        self.world.loop.create_task(self._live(self.process), context=self.process.context)

    def stop(self) -> None:
        """Ask it to end."""
        if self.is_up and self._shutdown is not None:
            self.world.note(f"{self.name} is asked to stop")
            self._shutdown.request("the simulation")

    def kill(self) -> None:
        """End it at once; repeatable."""
        if self.is_up:
            self.is_up = False
            self.world.note(f"{self.name} is killed")
            self.world.loop.kill(self.process)

    async def _live(self, process: Process) -> None:
        shutdown = self._shutdown = Shutdown()
        try:
            await self._run(shutdown)
        except Exception as error:
            if not process.is_alive:
                return
            self.world.fail("no process ends by any input", f"{self.name} ended: {_words(error)}")
        else:
            if not shutdown.is_requested:
                self.world.fail("no process ends by any input", f"{self.name} ended by itself")
        if process is self.process:
            left = self.process.live_tasks() - 1
            if left:
                self.world.fail("nothing leaks", f"{left} tasks of {self.name} are left after its end")
            self.is_up = False
            self.world.note(f"{self.name} has ended")

    def _client(self, program: str) -> KubeClient:
        transport = SimulatedTransport(self.world.gateway, self.process, self.weather)
        return KubeClient(CONFIG, program=program, transport=transport)

    def _build(self) -> None:
        raise NotImplementedError

    async def _run(self, shutdown: Shutdown) -> None:
        raise NotImplementedError


class ExtenderReplica(Program):
    """One replica of the extender."""

    app: Extender
    handlers: dict[str, FastPathHandler]
    is_ready = False
    _led = False

    @property
    def state(self) -> VendorState:
        """What it believes of the cluster."""
        return self.app.states[0]

    @property
    def leads(self) -> bool:
        """Whether it would serve now."""
        return self.is_up and self.app.leadership.is_leader

    def _build(self) -> None:
        self.handlers = {}
        self.is_ready = self._led = False
        duration_s, deadline_s, retry_s = self.world.settings.lease
        settings = ExtenderSettings(
            election=ElectionSettings(lease_duration=duration_s, lease_renew_deadline=deadline_s, lease_retry=retry_s),
            placement=PlacementSettings(
                vendor=(self.world.vendor,),
                node_policy=self.world.settings.node_policy,
                filter_answer=NamedNodes(self.world.settings.best, only_equal=self.world.settings.best == 20),
            ),
            dashboard=DashboardSettings(),
            follow=FollowSettings(
                page_size=self.world.settings.page_size,
                watch_timeout=self.rng.choice([60.0, 300.0]),
                watch_stall=self.rng.choice([20.0, 75.0]),
            ),
        )
        self.app = Extender(
            settings,
            self._client("extender"),
            identity=f"{self.name}.{self.starts}",
            clock=ProcessClock(self.world.loop, self.process),
            rng=random.Random(self.rng.getrandbits(64)),
            serve=self._serve,
        )
        self.world.bugs.plant_in_extender(self.app)
        self.process.after_step = self._check_leaders

    async def _run(self, shutdown: Shutdown) -> None:
        await self.app.run(shutdown)

    async def _serve(self, app: web.Application, _settings: ServeSettings) -> RunningServer:
        self.handlers = dict(app[FAST_PATHS].items())
        return _Server()

    def _check_leaders(self) -> None:
        """Two can only begin to lead at the same time in a step of the second.

        Who led stays known as such until another begins to: one that stopped and goes on had no other beside it.
        """
        if self._led or not self.app.leadership.is_leader:
            return
        self.world.invariants.check_one_leader(self)
        for other in self.world.extenders:
            other._led = other is self

    async def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Answer a call of the scheduler; in this program's process."""
        handler = self.handlers.get(path)
        if handler is None:
            return 404, b"not found"
        try:
            answer = handler(body)
            found = answer if isinstance(answer, bytes) else await answer
            return 200, self.world.bugs.alter(path, found)
        except RetryableError as error:
            return 503, str(error).encode()
        except GcushareError as error:
            return 400, str(error).encode()


class PluginReplica(Program):
    """The plugin of one node."""

    app: PluginApp

    def __init__(self, world: World, node: str, machine: Machine, kubelet: Kubelet, rng: random.Random) -> None:
        super().__init__(world, f"plugin/{node}", rng)
        self.node = node
        self.machine = machine
        self.kubelet = kubelet
        self.unit: str | None = None
        self.mode = world.settings.mode

    def _build(self) -> None:
        settings = PluginSettings(
            cards=CardSettings(
                vendor=self.world.vendor,
                memory_unit=self.unit,
                mode=self.mode,
                cards="simulated",
                poll_interval=self.world.settings.card_poll_s,
            ),
            kubelet=KubeletSettings(
                node_name=self.node,
                device_plugin_dir=_NOWHERE / self.node,
                pod_resources_socket=_NOWHERE / "kubelet.sock",
                cdi_dir=_NOWHERE / "cdi",
            ),
        )
        adapters = HostAdapters(
            clock=ProcessClock(self.world.loop, self.process),
            rng=random.Random(self.rng.getrandbits(64)),
            serve=self._serve,
            sockets=SimulatedSockets(self.kubelet.directory, self.kubelet, self.process),
            record=KubeletRecord(self.kubelet),
            cards=SimulatedSource(self.machine),
        )
        self.app = PluginApp(settings, self._client("plugin"), adapters=adapters)
        self.world.bugs.plant_in_plugin(self.app)

    async def _run(self, shutdown: Shutdown) -> None:
        await self.app.run(shutdown)

    async def _serve(self, _app: web.Application, _settings: ServeSettings) -> RunningServer:
        return _Server()

    @property
    def inventory(self) -> Inventory | None:
        """What it offers now."""
        return self.app.observed.agent.inventory if self.is_up else None


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_words(each) for each in error.exceptions)
    cause = f" because of {_words(error.__cause__)}" if error.__cause__ is not None else ""
    return f"{type(error).__name__}: {error}{cause}"
