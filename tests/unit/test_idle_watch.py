"""What each reading of a node's card says of the pods on it: idle, in use, or not to be known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare.node.over_use.idle_settings import IdleAction
from gcushare.node.over_use.idle_watch import MOST_LISTED
from tests.unit.idle_node import AFTER_S, IdleNode
from tests.unit.over_use_node import POLL_S

FIRST = "1970-01-01T00:00:05Z"


async def test_pods_without_a_process_are_idle_after_the_whole_time_and_no_longer_with_their_first_one(
    tmp_path: Path,
) -> None:
    node = IdleNode(tmp_path)
    await node.poll_for(AFTER_S)
    assert node.notes == {}
    await node.poll()
    assert node.notes == {"p0": FIRST, "p1": FIRST}
    assert [reason for _, reason, _ in node.events.posted] == ["Idle", "Idle"]
    node.start("p0", 100)
    node.use({100: 0.0})  # a process that has no memory yet
    await node.poll()
    assert node.notes == {"p1": FIRST}
    assert node.events.posted[-1] == (node.now_s, "IdleEnded", "p0")
    assert node.events.words[-1] == "it uses a card again"


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
    events = dict(zip((name for _, _, name in node.events.posted), node.events.words, strict=True))
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


def unseen(node: IdleNode) -> None:
    node.source.utilization = 7.0


def unread(node: IdleNode) -> None:
    node.source.fails = True


def unlisted(node: IdleNode) -> None:
    node.source.lists = False


def unknown(node: IdleNode) -> None:
    node.use({900: 0.1})  # it is in no control group, and runs no more


def outside(node: IdleNode) -> None:
    node.proc.start(901, "0::/init.scope\n")
    node.use({901: 0.5})


def crowded(node: IdleNode) -> None:
    pids = range(1000, 1000 + MOST_LISTED)
    for pid in pids:
        node.proc.start_in_pod(pid, node.uids["p1"])
    node.use(dict.fromkeys(pids, 0.001))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(unseen, "was used, and no process is listed", id="a chip at work without a process"),
        pytest.param(unread, "the last reading of card 0 failed", id="a reading that failed"),
        pytest.param(unlisted, "processes on card 0 are not listed", id="a library that lists none"),
        pytest.param(unknown, "ended before its pod was found", id="a process that ended"),
        pytest.param(outside, "0.50 GiB of card 0 are in use by processes of no known pod", id="processes of no pod"),
        pytest.param(crowded, "there may be more than are listed", id="a full list"),
    ],
)
async def test_one_reading_that_cannot_tell_begins_the_time_again_and_says_why(
    tmp_path: Path, spoil: Callable[[IdleNode], None], words: str
) -> None:
    node = IdleNode(tmp_path)
    await node.poll_for(AFTER_S)
    spoil(node)
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
