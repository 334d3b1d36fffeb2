"""A reflector at work with a server that cuts, stalls, forgets and lies, and what its sink came to hold."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gcushare.core.backoff import BackoffPolicy
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import PODS, Selector
from gcushare.wire.objects import Pod
from tests.protocol.kube_collection import CollectionServer
from tests.running import running

FAST = BackoffPolicy(first_s=0.005, cap_s=0.02)


DECODER = msgspec.json.Decoder(Pod)


@dataclass
class Picture:
    """A sink as the programs write them: pods by uid, applying replaces. Counts what it was given."""

    pods: dict[str, Pod] = field(default_factory=dict)
    applied_count: int = 0
    retained_count: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def applied(self, obj: Pod) -> None:
        self.pods[obj.metadata.uid] = obj
        self.applied_count += 1
        self._changed.set()

    def deleted(self, obj: Pod) -> None:
        self.pods.pop(obj.metadata.uid, None)
        self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        self.pods = {uid: pod for uid, pod in self.pods.items() if uid in uids}
        self.retained_count += 1
        self._changed.set()

    @property
    def names(self) -> list[str]:
        return sorted(pod.metadata.name for pod in self.pods.values())

    async def until(self, condition: Callable[[Picture], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def shows(self, *names: str) -> None:
        await self.until(lambda picture: picture.names == sorted(names))


@dataclass
class Running:
    """A reflector at work and everything around it."""

    server: CollectionServer
    picture: Picture
    reflector: Reflector[Pod]
    task: asyncio.Task[object]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that tells no one when it comes; ends early when the reflector ended."""
        async with asyncio.timeout(60):
            while not condition() and not self.task.done():  # noqa: ASYNC110 - counters tell no one that they changed
                await asyncio.sleep(0.002)

    async def streaming(self) -> None:
        await self.until(lambda: len(self.server.watches) > 0 and self.reflector.counters["watches"] > 0)


@asynccontextmanager
async def following(
    server: CollectionServer,
    *,
    settings: ReflectorSettings | None = None,
    decode: Callable[[msgspec.Raw], Pod] = DECODER.decode,
    clock: Clock | None = None,
) -> AsyncIterator[Running]:
    picture = Picture()
    async with KubeClient(server.config()) as client:
        reflector = Reflector(
            client,
            PODS,
            picture,
            decode=decode,
            selector=Selector(fields="spec.nodeName=n1"),
            settings=settings or ReflectorSettings(backoff=FAST, page_size=2),
            clock=clock or SystemClock(),
            rng=random.Random(7),
        )
        async with running(reflector.run(), "reflector under test") as task:
            yield Running(server, picture, reflector, task)


@asynccontextmanager
async def streaming(server: CollectionServer, **options: Any) -> AsyncIterator[Running]:
    """One that follows, and has listed and opened its stream."""
    async with following(server, **options) as running:
        await running.streaming()
        yield running


class NotingClock(SystemClock):
    """Remembers how long it was to sleep, and does not."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    async def sleep(self, delay_s: float) -> None:
        self.delays.append(delay_s)
        await asyncio.sleep(0)
