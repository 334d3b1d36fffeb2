"""What is written on Nodes for Cluster Autoscaler, by the leader alone, at a bounded rate."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, RetryableError
from gcushare.kube.patches import Precondition, annotations_patch
from gcushare.scheduler_extender.autoscaling import SeenNode, is_held
from gcushare.scheduler_extender.node_writer import NodeWriter
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED
from gcushare.wire.objects import Node, ObjectMeta
from tests.extender_objects import a_node, a_pod, on_card, state_of
from tests.manual_clock import ManualClock
from tests.played_api import Asked, PlayedApi


def seen(annotations: Mapping[str, str], *, is_ready: bool = True) -> SeenNode:
    return SeenNode(
        is_ready=is_ready,
        disabled=annotations.get(SCALE_DOWN_DISABLED),
        mark=annotations.get(KEPT_MARK),
        taint=None,
        counted=frozenset(),
    )


def written(annotations: Mapping[str, str], *, is_ready: bool = True, **held: bool) -> dict[str, str]:
    """The annotations once an extender of these vendors has written what it plans."""
    changes = seen(annotations, is_ready=is_ready).plan_annotations(held)
    return {key: value for key, value in {**annotations, **changes}.items() if value is not None}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            SCALE_DOWN_DISABLED: st.sampled_from(("true", "false", "")),
            KEPT_MARK: st.sampled_from(("enflame", "aliyun,enflame", "aliyun", "other", "")),
        },
    ),
    st.booleans(),
    st.booleans(),
)
def test_one_write_is_enough_and_only_what_is_ours_changes(
    before: dict[str, str], is_held: bool, is_ready: bool
) -> None:
    after = written(before, enflame=is_held, is_ready=is_ready)
    assert written(after, enflame=is_held, is_ready=is_ready) == after
    if SCALE_DOWN_DISABLED in before and (KEPT_MARK not in before or before[SCALE_DOWN_DISABLED] != "true"):
        assert after == {SCALE_DOWN_DISABLED: before[SCALE_DOWN_DISABLED]}
    else:
        is_kept = (is_held and is_ready) or "aliyun" in before.get(KEPT_MARK, "")
        assert (after.get(SCALE_DOWN_DISABLED) == "true") == is_kept
        assert (KEPT_MARK in after) == (SCALE_DOWN_DISABLED in after)


@given(st.lists(st.tuples(st.sampled_from(("enflame", "aliyun")), st.booleans(), st.booleans())))
def test_two_extenders_with_a_vendor_each_agree_on_a_node(steps: list[tuple[str, bool, bool]]) -> None:
    """Each writes when what it knows changes; what the other one keeps stays, in whatever order they write."""
    annotations: dict[str, str] = {}
    known = {"enflame": False, "aliyun": False}
    for name, holds, is_ready in steps:
        known[name] = holds and is_ready
        annotations = written(annotations, is_ready=is_ready, **{name: holds})
        keeping = sorted(each for each, keeps in known.items() if keeps)
        ours = {SCALE_DOWN_DISABLED: "true", KEPT_MARK: ",".join(keeping)}
        assert annotations == (ours if keeping else {})
        assert written(annotations, **{name: known[name]}) == annotations, "it has nothing more to write"


@pytest.mark.parametrize(
    ("modes", "counted", "offers"),
    [
        ((SERVES_MEMORY,), {ENFLAME.memory_resource}, True),
        ((SERVES_MEMORY,), {ENFLAME.whole_card_resource}, False),
        ((SERVES_WHOLE,), {ENFLAME.whole_card_resource}, True),
        ((SERVES_MEMORY, SERVES_WHOLE), set(), False),
        ((SERVES_CLAIMS,), set(), True),
    ],
)
def test_cards_are_offered_when_the_kubelet_counts_them_or_as_claims(
    modes: tuple[str, ...], counted: set[str], offers: bool
) -> None:
    state = state_of(a_node("a", 16, modes=modes))
    found = SeenNode(is_ready=True, disabled=None, mark=None, taint=0, counted=frozenset(counted))
    assert found.offers(state.ledger.nodes["a"], ENFLAME) is offers


def test_a_node_is_held_by_its_pods_alone_and_no_longer_once_its_cards_are_unknown() -> None:
    state = state_of(a_node("a", 16), a_node("b", 16))
    state.pod_applied(a_pod("one", 10, node="a", record=on_card(0, 10)))
    daemon = {"kind": "DaemonSet", "name": "exporter", "apiVersion": "apps/v1", "uid": "u", "controller": True}
    state.pod_applied(a_pod("daemon", 1, node="b", record=on_card(0, 1), ownerReferences=[daemon]))
    assert [is_held(state.ledger.nodes.get(name)) for name in ("a", "b", "gone")] == [True, False, False]
    noted = [written({}, enflame=is_held(state.ledger.nodes.get(name))) for name in ("a", "b")]
    assert noted == [{SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"}, {}], "the idle node may go, this one never"
    state.node_deleted("a")
    assert not is_held(state.ledger.nodes.get("a"))


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
