"""The life of a program in the simulated world: started, stopped with grace, killed, started again."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

from aiohttp import web

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.runtime.http.answers import RejectedCounts
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.http.tls import CertificateEnd
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from simulation.loop import SimulatedLoop
from simulation.process import CallsUnderWay, Process
from simulation.transport import SimulatedTransport
from simulation.weather import Weather
from simulation.world import ClusterWorld

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = KubeConfig("https://simulated:6443", "the simulation", namespace="kube-system")


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
        future: asyncio.Future[None] = asyncio.Future(loop=self._loop)
        self._loop.settle_later(delay_s, future, None)
        await future


class SilentServer(RunningServer):
    """A server without a socket: the world calls its handlers."""

    def __init__(self) -> None:
        self.host, self.port = "simulated", 0
        self.rejected = RejectedCounts()
        self.is_listening = True
        self.calls = CallsUnderWay()

    @property
    def certificate_ends(self) -> tuple[CertificateEnd, ...]:
        return ()

    @property
    def url(self) -> str:
        return "http://simulated"

    async def stop(self, drain_s: float) -> None:
        """Stop answering: calls under way have so many seconds to end, then they are cut, as the real one does it."""
        self.is_listening = False
        await self.calls.end(drain_s)


async def serve_silently(_app: web.Application, _settings: ServeSettings) -> RunningServer:
    """Serve pages, which no one reads."""
    return SilentServer()


class Program:
    """One program's life: started, stopped with grace, killed, started again. ``name`` is what the history calls it."""

    def __init__(self, world: ClusterWorld, name: str, rng: random.Random) -> None:
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

    @property
    def is_ending(self) -> bool:
        """Whether it was asked to end and has not yet."""
        return self.is_up and self._shutdown is not None and self._shutdown.is_requested

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


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_words(each) for each in error.exceptions)
    cause = f" because of {_words(error.__cause__)}" if error.__cause__ is not None else ""
    return f"{type(error).__name__}: {error}{cause}"
