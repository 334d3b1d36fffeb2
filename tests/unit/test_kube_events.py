"""The event recorder in virtual time: at most one post per object and reason in a minute, and no one ever waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare.kube.errors import AlreadyExistsError, UnknownOutcomeError
from gcushare.kube.events import MAX_MESSAGE_BYTES, EventRecorder, RecorderLimits, about_pod
from gcushare.wire.objects import Event, ObjectReference
from tests.played_api import Asked, PlayedApi
from tests.running import running
from tests.unit.kube_time import VirtualTime

POD = about_pod(PodRef("uid-1", "ns", "train"))
NODE = ObjectReference(kind="Node", name="node-1", uid="node-1")


@dataclass
class EventServer(PlayedApi):
    """Events as the API server keeps them; fails the next requests with ``failures``, before or after their effect."""

    events: dict[str, Event] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    failures: list[GcushareError] = field(default_factory=list)
    after_effect: bool = False
    stuck: asyncio.Event | None = None

    async def answer(self, asked: Asked) -> Event:
        self.requests.append("repeat" if asked.verb == "patch" else asked.verb)
        if self.stuck is not None:
            await self.stuck.wait()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None and not self.after_effect:
            raise failure
        name = asked.name or asked.body["metadata"]["name"]
        if asked.verb == "create":
            if name in self.events:
                raise AlreadyExistsError("there is one of that name")
            event = msgspec.convert(asked.body, Event)
        else:
            if name not in self.events:
                raise NotFoundError("events live for an hour")
            event = msgspec.convert(msgspec.to_builtins(self.events[name]) | asked.body, Event)
        assert event.metadata.namespace == asked.namespace
        self.events[name] = event
        if failure is not None:
            raise failure
        return event

    @property
    def shown(self) -> list[tuple[str, str, int | None]]:
        """What kubectl would show: reason, message and count of each event."""
        return [(each.reason, each.message, each.count) for each in self.events.values()]


@dataclass
class Desk:
    recorder: EventRecorder
    server: EventServer
    time: VirtualTime

    async def record(self, message: str, reason: str = "NoRoom", **options: bool) -> None:
        self.recorder.record(POD, reason, message, **options)
        await self.time.settle()


@asynccontextmanager
async def desk(limits: RecorderLimits | None = None) -> AsyncIterator[Desk]:
    time, server = VirtualTime(), EventServer()
    recorder = EventRecorder(server.client, "gcushare-test", host="node-1", limits=limits, clock=time.clock())
    async with running(recorder.run(), "recorder under test"):
        yield Desk(recorder, server, time)


async def test_an_event_is_posted_with_everything_kubectl_shows() -> None:
    async with desk() as here:
        await here.record("card 3 of node-1", "CardAssigned", warning=True)
        (event,) = here.server.events.values()
        assert event.involved_object == about_pod(PodRef("uid-1", "ns", "train"))
        assert event.involved_object == ObjectReference("v1", "Pod", "train", "ns", "uid-1")
        assert (event.type, event.count) == ("Warning", 1)
        assert here.server.shown == [("CardAssigned", "card 3 of node-1", 1)]
        assert (event.metadata.namespace, event.metadata.name.partition(".")[0]) == ("ns", "train")
        assert (event.source.component, event.source.host) == ("gcushare-test", "node-1")
        assert (event.reporting_component, event.reporting_instance) == ("gcushare-test", "node-1")
        assert event.first_timestamp == event.last_timestamp == "2026-01-01T00:16:40Z"


async def test_a_long_message_is_cut_between_characters() -> None:
    async with desk() as here:
        for before in ("x", "xx"):
            await here.record(before + "é" * MAX_MESSAGE_BYTES, corrects=True)
            assert len(here.server.shown[0][1].encode()) in (MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES)
        await here.record("x" * MAX_MESSAGE_BYTES, corrects=True)
        assert here.server.shown[0][1] == "x" * MAX_MESSAGE_BYTES


async def test_repeats_within_a_minute_are_counted_in_the_next_post() -> None:
    async with desk() as here:
        for number in range(100):
            here.recorder.record(POD, "NoRoom", f"message {number}")
            await here.time.pass_(0.5)
        assert here.server.requests == ["create"]
        await here.time.pass_(11)
        await here.record("still no room")
        assert here.server.requests == ["create", "repeat"]
        assert here.server.shown == [("NoRoom", "still no room", 101)]
        assert [each.last_timestamp for each in here.server.events.values()] == ["2026-01-01T00:17:41Z"]
        assert here.recorder.counters["merged"] == 99


async def test_what_is_said_of_each_card_of_a_node_is_shown() -> None:
    async with desk() as here:
        for number in (0, 1, 0):
            here.recorder.record(NODE, "CardUnhealthy", f"card {number}")
        await here.time.pass_(1)
        assert here.server.shown == [("CardUnhealthy", "card 0", 2), ("CardUnhealthy", "card 1", 1)]


async def test_what_corrects_an_event_does_not_wait_for_its_minute() -> None:
    async with desk() as here:
        await here.record("it may fit")
        await here.record("it can never fit", corrects=True)
        assert here.server.requests == ["create", "repeat"]
        assert here.server.shown == [("NoRoom", "it can never fit", 2)]


async def test_what_is_recorded_while_a_post_is_under_way_waits_as_well() -> None:
    async with desk() as here:
        here.server.stuck = asyncio.Event()
        await here.record("first")
        here.recorder.record(POD, "NoRoom", "second")
        here.server.stuck.set()
        await here.time.settle()
        assert here.server.requests == ["create"]
        await here.time.pass_(61)
        await here.record("third")
        assert here.server.shown == [("NoRoom", "third", 3)]


async def test_the_caller_never_waits_and_what_does_not_fit_is_counted() -> None:
    async with desk(RecorderLimits(queue=3)) as here:
        here.server.stuck = asyncio.Event()
        here.recorder.record(POD, "First", "being posted")
        await here.time.settle()
        for number in range(10):
            here.recorder.record(POD, f"Reason{number}", "x")
        assert here.recorder.counters["dropped"] == 7
        here.server.stuck.set()
        await here.time.settle()
        assert here.recorder.counters["posted"] == 4


async def test_an_event_that_expired_on_the_server_goes_on_in_a_new_one() -> None:
    async with desk() as here:
        here.recorder.record(POD, "NoRoom", "x")
        await here.time.pass_(4000)
        here.server.events.clear()
        await here.record("y")
        assert here.server.shown == [("NoRoom", "y", 2)]


async def test_a_server_away_for_a_moment_is_tried_again() -> None:
    async with desk() as here:
        here.server.failures = [RetryableError("connection refused"), RetryableError("busy", delay_s=5)]
        here.recorder.record(POD, "NoRoom", "x")
        await here.time.pass_(1.1)
        assert len(here.server.requests) == 2
        await here.time.pass_(4.8)
        assert len(here.server.requests) == 2
        await here.time.pass_(0.3)
        assert here.server.shown == [("NoRoom", "x", 1)]
        assert here.recorder.counters["failed"] == 0


async def test_a_post_whose_answer_was_lost_is_not_doubled() -> None:
    async with desk() as here:
        here.server.after_effect = True
        here.server.failures = [UnknownOutcomeError("connection lost after sending")]
        here.recorder.record(POD, "NoRoom", "x")
        await here.time.pass_(5)
        assert here.server.shown == [("NoRoom", "x", 1)]
        assert here.recorder.counters["posted"] == 1


async def test_a_refused_event_is_given_up_counted_and_not_tried_for_a_minute() -> None:
    async with desk() as here:
        here.server.failures = [ForbiddenError("may not create events")]
        await here.record("x")
        await here.record("y")
        assert here.recorder.counters["failed"] == 1
        assert here.server.requests == ["create"]
        await here.time.pass_(61)
        await here.record("z")
        assert here.server.shown == [("NoRoom", "z", 3)]


async def test_posts_are_paced_over_all_series() -> None:
    async with desk(RecorderLimits(rate_per_s=2, burst=4)) as here:
        for number in range(10):
            here.recorder.record(POD, f"Reason{number}", "x")
        await here.time.settle()
        assert len(here.server.events) == 4
        await here.time.pass_(1.0)
        assert len(here.server.events) == 6
        await here.time.pass_(2.0)
        assert len(here.server.events) == 10


async def test_drain_waits_for_what_was_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    async with desk() as here:
        here.server.stuck = asyncio.Event()
        here.recorder.record(POD, "NoRoom", "x")
        here.recorder.record(NODE, "NoRoom", "y")
        assert not await here.recorder.drain(0.01)
        assert "events left behind count=2" in caplog.text, "the one on its way counts too"
        here.server.stuck.set()
        assert await here.recorder.drain(60)
        assert here.server.shown == [("NoRoom", "x", 1), ("NoRoom", "y", 1)]


async def test_memory_is_bounded_by_forgetting_the_series_used_longest_ago() -> None:
    async with desk(RecorderLimits(series=2, queue=100)) as here:
        for name in ["One", "Two", "One", "Three"]:
            await here.record("x", name)
        here.recorder.record(POD, "One", "still known")
        here.recorder.record(POD, "Two", "forgotten, so it starts again")
        await here.time.settle()
        assert sorted(each.reason for each in here.server.events.values()) == ["One", "Three", "Two", "Two"]
