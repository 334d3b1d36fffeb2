"""The Service before the extender's replicas, as kube-scheduler reaches them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from simulation.programs import ExtenderReplica
from simulation.weather import Fate, Weather
from simulation.world import World


class Service:
    """The Service before the replicas: it knows whose pod had the leader's label, and was ready, at the last look."""

    def __init__(self, world: World, replicas: Sequence[ExtenderReplica], weather: Weather, rng: random.Random) -> None:
        self._world = world
        self._replicas = replicas
        self._weather = weather
        self._rng = rng

    async def call(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Call one of the replicas that were ready."""
        loop, weather = self._world.loop, self._weather
        ready = [each for each in self._replicas if each.is_ready]
        fate = weather.fate()
        if not ready or fate in (Fate.REFUSED, Fate.UNAVAILABLE, Fate.TOO_MANY):
            await asyncio.sleep(0.002)
            raise ConnectionRefusedError("no replica is ready")
        replica = self._rng.choice(ready)
        answer: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        number = self._world.next_number()

        def fail() -> None:
            if not answer.done():
                answer.set_exception(ConnectionResetError("the replica went away"))
                answer.exception()  # Seen: the scheduler that asked may have ended meanwhile.

        def deliver(reply: tuple[int, bytes]) -> None:
            if not answer.done():
                answer.set_result(reply)

        async def serve() -> None:
            try:
                reply = await replica.answer(path, body)
            except asyncio.CancelledError:
                loop.call_world(weather.way_s(), fail)
                raise
            if fate not in (Fate.LOST_AFTER, Fate.RESET_AFTER, Fate.FAILED_AFTER):
                loop.call_world(weather.way_s(), deliver, reply)
            elif fate is not Fate.LOST_AFTER:
                loop.call_world(weather.way_s(), fail)

        def arrive() -> None:
            if not process.is_alive or not replica.handlers or not replica.server.is_listening:
                fail()
            elif not answer.done():
                replica.server.calls.hold(loop.create_task(serve(), context=process.context))

        process = replica.process
        if fate is Fate.RESET_BEFORE:
            loop.call_world(0.001, fail)
        elif fate is not Fate.LOST_BEFORE:
            loop.call_world(weather.way_s(), arrive)
        process.on_end[number] = fail
        try:
            return await answer
        finally:
            process.on_end.pop(number, None)

    def probe_replicas(self) -> None:
        """Look who is ready, as kubelets do, and who has the label, as the controller of endpoints does."""
        for replica in self._replicas:
            replica.is_ready = (
                replica.is_up
                and not replica.process.is_paused
                and replica.app.serving.is_synced
                and replica.is_labelled
            )
        self._world.loop.call_world(2.0, self.probe_replicas)
