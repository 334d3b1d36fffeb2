"""A program that starts again whenever it was killed, in the worlds where nothing else ends one."""

from __future__ import annotations

import random

from simulation.process import Process
from simulation.transport import SimulatedTransport
from simulation.weather import Odds, Weather
from simulation.world import World


class RestartingProgram:
    """One process at a time; ``starts`` counts them."""

    away_s = (0.2, 20.0)
    """How long it is gone after its end."""
    wall_skew_s = 0.0
    """How far its wall clock may be off."""

    def __init__(self, world: World, name: str, rng: random.Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.weather = Weather(rng, world.faults)
        self.process = Process(name)
        self.process.is_alive = False
        self.starts = 0

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process.is_alive:
            return
        self.starts += 1
        offset_s, skew_s = self.rng.uniform(0, 1e5), self.wall_skew_s
        wall_offset_s = self.rng.uniform(-skew_s, skew_s) if skew_s else 0.0
        process = self.process = Process(self.name, offset_s=offset_s, wall_offset_s=wall_offset_s)
        process.on_end[0] = lambda: self._ended(process)
        self.world.note(f"{self.name} starts")
        self._reset()
        self.world.loop.create_task(self._live(process), context=process.context)

    def disturb(self, odds: dict[str, float], for_s: float) -> None:
        """Begin bad weather between it and the API server; any end clears all of it."""
        self.weather.begin(self.world.loop.steps, Odds(**odds))
        self.world.loop.call_world(for_s, self.weather.clear)

    def calm(self) -> None:
        """End its weather, and let it live."""
        self.weather.clear()
        self.process.steps_to_live = None

    def _ended(self, process: Process) -> None:
        self.world.gateway.drop(process)
        self._reset()
        self.world.note(f"{self.name} was killed")
        self.world.loop.call_world(self.rng.uniform(*self.away_s), self.start)

    async def _live(self, process: Process) -> None:
        try:
            await self._run(process)
        except Exception as error:
            # What is in its last step was to die here.
            if process.is_alive and process.steps_to_live != 1:
                self.world.fail("no process ends by any input", f"{self.name} ended: {type(error).__name__}: {error}")

    def _transport(self, process: Process) -> SimulatedTransport:
        return SimulatedTransport(self.world.gateway, process, self.weather)

    def _reset(self) -> None:
        """Forget what was of the last process."""

    async def _run(self, process: Process) -> None:
        raise NotImplementedError
