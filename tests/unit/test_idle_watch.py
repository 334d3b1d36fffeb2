"""Which pods are idle and which of them are evicted, and what each reading of a node's card says of the pods on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import PodRef
from gcushare.core.over_use.eviction import Decision
from gcushare.core.over_use.idleness import IdlePod, IdleRules, IdleTracker, decide_idle
from gcushare.node.over_use.idle_settings import IdleAction
from gcushare.node.over_use.idle_watch import MOST_LISTED
from tests.fake_proc import cgroup_of
from tests.unit.over_use_node import AFTER_S, POLL_S, IdleNode

RULES = IdleRules(after_s=3600.0, least_age_s=7200.0, namespaces=("*",))
GAP_S = 60.0
OF_A_CONTROLLER = PodRef("uid-a", "team", "a", controller="ReplicaSet web-5d8")
OTHERS = ("", "DaemonSet x", "Workflow w")
BARE, OF_A_DAEMON_SET, OF_A_WORKFLOW = (replace(OF_A_CONTROLLER, controller=each) for each in OTHERS)
IDLE = IdlePod(OF_A_CONTROLLER, 0.0, 4000.0, noted_s=300.0)

LOOKS = st.sampled_from(("quiet", "used", "in doubt", "missing"))
"""What a reading says of a pod: nothing of it was there, a process was, it cannot tell, or there is no reading."""


@given(st.lists(st.tuples(LOOKS, st.floats(min_value=1.0, max_value=59.0)), min_size=1, max_size=40))
def test_a_pod_is_quiet_for_as_long_as_every_reading_of_that_time_was(looks: list[tuple[str, float]]) -> None:
    tracker, now_s, first_s = IdleTracker(GAP_S), 0.0, None
    last_reading_s = 0.0
    for look, wait_s in looks:
        now_s += wait_s
        if look == "missing":
            continue
        is_late, last_reading_s = now_s - last_reading_s > GAP_S, now_s
        doubts = {1: "it could not be read"} if look == "in doubt" else {}
        tracker.take({"a": (0, 1)}, {"a"} if look == "used" else (), doubts, now_s, 1000.0 + now_s)
        first_s = None if look != "quiet" else now_s if is_late or first_s is None else first_s
        found = tracker.quiet.get("a")
        assert (found.since_s if found is not None else None) == first_s
        assert found is None or found.since == 1000.0 + found.since_s
        assert tracker.doubts == ({"a": "it could not be read"} if look == "in doubt" else {})


def test_a_doubt_about_a_card_counts_for_the_pods_that_hold_it_and_a_process_anywhere_for_its_pod() -> None:
    tracker = IdleTracker(GAP_S)
    tracker.take({"a": (0,), "b": (1,), "none": ()}, {"b"}, {1: "sick"}, 5.0, 5.0)
    assert tracker.quiet.keys() == {"a"}
    assert tracker.doubts == {}
    tracker.take({"b": (1,)}, (), {1: "sick"}, 10.0, 10.0)
    assert not tracker.quiet
    assert tracker.doubts == {"b": "sick"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({}, "", id="an idle pod of a controller that had its notice"),
        pytest.param({"noted_s": None}, "5 min more to keep it", id="not annotated yet"),
        pytest.param({"noted_s": 150.0}, "2 min more to keep it", id="annotated a moment ago"),
        pytest.param({"wish": "keep"}, "its author keeps it", id="kept"),
        pytest.param({"wish": "kepp"}, "'kepp' is neither keep nor evict", id="a wish that is none"),
        pytest.param({"pod": BARE}, "no controller creates it again", id="a bare pod"),
        pytest.param({"pod": OF_A_WORKFLOW}, "not known that Workflow w creates it again", id="of a workflow"),
        pytest.param({"pod": OF_A_WORKFLOW, "wish": "evict"}, "", id="of a workflow whose author says so"),
        pytest.param({"pod": BARE, "wish": "evict"}, "", id="a bare pod whose author says so"),
        pytest.param({"pod": OF_A_DAEMON_SET, "wish": "evict"}, "on the same node", id="of a DaemonSet"),
        pytest.param({"sharers": ("team/b",)}, "shares its memory with team/b", id="a claim that another pod uses"),
        pytest.param({"ending": True}, "being deleted", id="ending"),
        pytest.param({"is_static": True}, "a static pod", id="static"),
        pytest.param({"refused_lately": "a budget refused"}, "a budget refused", id="refused a moment ago"),
        pytest.param({"pod": PodRef("u", "kube-system", "a")}, "exempt by 'kube-system'", id="exempt"),
    ],
)
def test_what_keeps_an_idle_pod(change: dict[str, Any], words: str) -> None:
    pod = replace(IDLE, **change)
    found = decide_idle([pod], RULES, ("kube-system",))
    assert found.victim == (None if words else pod)
    assert words in found.passed_over.get(str(pod.pod), "")
    if not words:
        assert found.reason == (
            "no process of it was on a card, and nothing used its cards unseen, since 1970-01-01T00:00:00Z"
        )


def test_the_least_important_pod_goes_that_was_idle_longest_and_one_at_a_time() -> None:
    pods = [
        replace(IDLE, pod=replace(OF_A_CONTROLLER, uid=name, name=name, priority=priority), since=since)
        for name, priority, since in (("younger", 0, 9.0), ("oldest", 0, 5.0), ("important", 1, 1.0))
    ]
    found = decide_idle(pods, RULES)
    assert found.victim is pods[1]
    assert found.passed_over == dict.fromkeys(("team/younger", "team/important"), "after team/oldest: one at a time")
    names = (str(each.pod) for each in pods)
    assert decide_idle(pods, RULES, pausing="a pause") == Decision(None, "", dict.fromkeys(names, "a pause"))


@pytest.mark.parametrize(
    ("quiet_s", "age_s", "is_idle"), [(3600.0, 7200.0, True), (3599.0, 7200.0, False), (3600.0, 7199.0, False)]
)
def test_a_pod_is_idle_after_the_time_and_at_the_least_age(quiet_s: float, age_s: float, is_idle: bool) -> None:
    assert RULES.calls_idle(quiet_s, age_s) is is_idle


@pytest.mark.parametrize(("pattern", "covers"), [("*", True), ("team-*", True), ("team-a", True), ("team", False)])
def test_namespaces_that_are_judged(pattern: str, covers: bool) -> None:
    assert replace(RULES, namespaces=("x", pattern)).covers("team-a") is covers


# The watch on a node

FIRST = "1970-01-01T00:00:05Z"
P1 = "00000000-0000-4000-8000-000000000001"
"""The uid of the pod p1."""


async def test_pods_without_a_process_are_idle_after_the_whole_time_and_no_longer_with_their_first_one(
    tmp_path: Path,
) -> None:
    node = IdleNode(tmp_path)
    await node.poll_for(AFTER_S)
    assert node.notes == {}
    await node.poll()
    assert node.notes == {"p0": FIRST, "p1": FIRST}
    assert [reason for _, reason, _ in node.heard.pods] == ["Idle", "Idle"]
    node.start("p0", 100)
    node.use({100: 0.0})  # a process that has no memory yet
    await node.poll()
    assert node.notes == {"p1": FIRST}
    assert node.heard.pods[-1] == ("p0", "IdleEnded", "it uses a card again")


@pytest.mark.parametrize(
    ("action", "words"),
    [
        pytest.param(IdleAction.REPORT, "nothing follows; --idle evict would evict it", id="a rehearsal"),
        pytest.param(IdleAction.EVICT, "it is evicted in 60 s unless it uses a card or has", id="before it goes"),
    ],
)
async def test_the_event_says_what_follows(tmp_path: Path, action: IdleAction, words: str) -> None:
    node = IdleNode(tmp_path, idle=action)
    controlled = node.store.entries[node.uids["p0"]]
    controlled.annotations = dict(controlled.annotations) | {"gcushare.io/when-idle": "evict"}
    await node.poll_for(AFTER_S + POLL_S)
    events = {name: words for name, _, words in node.heard.pods}
    assert events["p0"].startswith(
        f"no process of it was on a card, and nothing used its cards unseen, since {FIRST}: {words}"
    )
    assert events["p1"].endswith("it stays: exempt by 'default/p1'")


async def test_pods_of_other_namespaces_and_young_ones_are_not_judged(tmp_path: Path) -> None:
    elsewhere = IdleNode(tmp_path / "a", idle_namespaces=("team-*",))
    young = IdleNode(tmp_path / "b", idle_least_age=2 * AFTER_S)
    for entry in young.store.entries.values():
        entry.assign_time_ns = 1
    for node in (elsewhere, young):
        await node.poll_for(2 * AFTER_S)
        assert node.notes == {}
    await young.poll()
    assert young.notes == {"p0": FIRST, "p1": FIRST}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "pids", "group", "words"),
    [
        pytest.param(
            {"utilization": 7.0}, [], "", "was used, and no process is listed", id="at work without a process"
        ),
        pytest.param({"fails": True}, [], "", "the last reading of card 0 failed", id="a reading that failed"),
        pytest.param({"lists": False}, [], "", "processes on card 0 are not listed", id="a library that lists none"),
        pytest.param({}, [900], "", "ended before its pod was found", id="a process that ended"),
        pytest.param({}, [901], "0::/init.scope\n", "are in use by processes of no known pod", id="one of no pod"),
        pytest.param({}, range(1000, 1000 + MOST_LISTED), cgroup_of(P1), "more than are listed", id="a full list"),
    ],
)
async def test_one_reading_that_cannot_tell_begins_the_time_again_and_says_why(
    tmp_path: Path, source: dict[str, Any], pids: Sequence[int], group: str, words: str
) -> None:
    node = IdleNode(tmp_path)
    await node.poll_for(AFTER_S)
    vars(node.source).update(source)
    for pid in pids if group else ():
        node.proc.start(pid, group)
    node.use(dict.fromkeys(pids, 0.5))
    await node.poll()
    assert node.notes == {}
    assert words in node.idle.doubts["default/p0"]
    node.source.utilization, node.source.fails, node.source.lists = None, False, True
    node.use({})
    await node.poll_for(AFTER_S)
    assert node.notes == {}
    assert node.idle.doubts == {}
    await node.poll()
    assert node.notes.keys() == {"p0", "p1"}


async def test_a_process_that_ended_since_the_poll_is_that_of_the_poll_before(tmp_path: Path) -> None:
    node = IdleNode(tmp_path)
    node.start("p1", 100)
    node.use({100: 1.0})
    await node.poll()
    node.proc.end(100)
    await node.poll()
    assert node.idle.doubts == {}
    node.use({})
    await node.poll_for(AFTER_S - POLL_S)
    assert node.notes.keys() == {"p0"}


async def test_a_time_without_readings_counts_for_no_one(tmp_path: Path) -> None:
    node = IdleNode(tmp_path)
    await node.poll_for(AFTER_S)
    node.now_s += 4 * POLL_S
    await node.poll()
    assert node.notes == {}
