"""What the extender writes on Nodes is planned from the newest version, and again if the Node was newer than known."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Request
from gcushare.kube.patches import Precondition, annotations_patch
from gcushare.scheduler_extender.node_writer import NodeWriter
from gcushare.wire.objects import Node, ObjectMeta
from tests.manual_clock import ManualClock
from tests.unit.test_kube_requests import Recording


@dataclass
class Server(Recording):
    """Accepts a write of the newest version of a Node alone."""

    versions: dict[str, int] = field(default_factory=dict)
    failure: GcushareError | None = None
    before_answer: Callable[[], object] = lambda: None

    async def send(self, request: Request) -> tuple[bytes, str]:
        self.before_answer()
        if self.failure is not None:
            raise self.failure
        self.requests.append(request)
        name, body = request.path.split("/")[4], json.loads(request.body or b"")
        if name not in self.versions:
            raise NotFoundError(name)
        if int(body["metadata"]["resourceVersion"]) != self.versions[name]:
            raise ConflictError(name)
        self.versions[name] += 1
        return b'{"kind": "Node", "metadata": {"name": "a"}}', ""


def node(name: str, version: int) -> Node:
    return Node(metadata=ObjectMeta(name=name, resource_version=str(version)))


@dataclass
class Rig:
    server: Server
    leads: bool = True

    def __post_init__(self) -> None:
        client = KubeClient(KubeConfig("http://127.0.0.1:1", "test"), transport=self.server)
        self.clock = ManualClock()
        self.writer = NodeWriter(client, "of the test", lambda: self.leads, clock=self.clock, rng=random.Random(1))

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
    sent = len(rig.server.requests)
    assert not await rig.write()
    assert len(rig.server.requests) == sent


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
