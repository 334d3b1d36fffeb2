"""What the extender writes on Nodes is planned from the newest version, and again if the Node was newer than known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, RetryableError
from gcushare.kube.patches import Precondition, annotations_patch
from gcushare.scheduler_extender.node_writer import NodeWriter
from gcushare.wire.objects import Node, ObjectMeta
from tests.manual_clock import ManualClock
from tests.played_api import Asked, PlayedApi


@dataclass
class Server(PlayedApi):
    """Accepts a write of the newest version of a Node alone."""

    versions: dict[str, int] = field(default_factory=dict)
    failure: GcushareError | None = None
    before_answer: Callable[[], object] = lambda: None
    asked: int = 0

    async def answer(self, asked: Asked) -> Node:
        self.before_answer()
        if self.failure is not None:
            raise self.failure
        self.asked += 1
        if asked.name not in self.versions:
            raise NotFoundError(asked.name)
        if int(asked.body["metadata"]["resourceVersion"]) != self.versions[asked.name]:
            raise ConflictError(asked.name)
        self.versions[asked.name] += 1
        return node("a", 0)


def node(name: str, version: int) -> Node:
    return Node(metadata=ObjectMeta(name=name, resource_version=str(version)))


@dataclass
class Rig:
    server: Server
    leads: bool = True

    def __post_init__(self) -> None:
        self.clock = ManualClock()
        self.writer = NodeWriter(
            self.server.client, "of the test", lambda: self.leads, clock=self.clock, rng=random.Random(1)
        )

    async def write(self, name: str = "a") -> bool:
        return await self.writer.write(
            name, lambda version: annotations_patch({"k": "v"}, Precondition(resource_version=version))
        )


async def test_a_refused_write_is_planned_again_once_the_watch_brings_the_newer_version() -> None:
    rig = Rig(Server(versions={"a": 7}))
    assert not rig.writer.node_applied(node("a", 6))
    assert not await rig.write()
    assert not rig.writer.changed.is_set(), "it would be refused again"
    assert rig.writer.node_applied(node("a", 7))
    assert await rig.write()
    assert not rig.writer.node_applied(node("a", 8))
    assert rig.writer.counters == {"written": 1}


async def test_a_version_that_came_during_the_write_has_it_planned_again_at_once() -> None:
    rig = Rig(Server(versions={"a": 7}))
    rig.writer.node_applied(node("a", 6))
    rig.server.before_answer = lambda: rig.writer.node_applied(node("a", 7))
    assert not await rig.write()
    assert rig.writer.changed.is_set()


async def test_a_node_that_is_gone_and_a_replica_that_does_not_lead_write_nothing() -> None:
    rig = Rig(Server(versions={"a": 1}))
    rig.writer.node_applied(node("a", 1))
    assert await rig.write("gone"), "nothing has to be planned again"
    rig.leads = False
    sent = rig.server.asked
    assert not await rig.write()
    assert rig.server.asked == sent


async def test_a_failure_has_everything_written_again_after_a_wait_and_only_by_the_leader() -> None:
    rig = Rig(Server(versions={"a": 1}), leads=False)
    rig.writer.node_applied(node("a", 1))
    calls: list[float] = []
    done = asyncio.Event()

    async def write_all() -> None:
        calls.append(rig.clock.now_s)
        rig.server.failure = RetryableError("overloaded", delay_s=30.0) if len(calls) == 1 else None
        await rig.write()
        done.set()

    async def complete() -> None:
        """Everything is read."""

    task = asyncio.create_task(rig.writer.run(write_all, complete))
    rig.writer.changed.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (rig.writer.changed.is_set(), calls) == (False, [])
    rig.leads = True
    rig.writer.changed.set()
    await asyncio.wait_for(done.wait(), 10)
    task.cancel()
    assert len(calls) == 2
    assert calls[1] - calls[0] >= 30.0
    assert rig.writer.counters == {"failed": 1, "written": 1}
