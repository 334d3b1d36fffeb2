"""What changed between two looks is reported in one line each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gcushare.cli.inspect.changes import WatchedState, changes_between
from gcushare.cli.inspect.summary import summarise
from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts, PodFacts
from tests.builders import card, cards, held, pod
from tests.unit.inspect_snapshots import give, picture_of


def base() -> ClusterSnapshot:
    return give(picture_of(("node-1", cards(16, 16), "1")), held("a", "node-1", (0, 4)))


def _gives(snapshot: ClusterSnapshot) -> None:
    give(snapshot, held("b", "node-1", (0, 6)))


def _takes(snapshot: ClusterSnapshot) -> None:
    snapshot.lose_pod("uid-a")


def _moves(snapshot: ClusterSnapshot) -> None:
    give(snapshot, held("a", "node-1", (1, 4)))


def _sickens(snapshot: ClusterSnapshot) -> None:
    snapshot.ledger.set_node("node-1", [card(0, sick=True), card(1)], snapshot.ledger.nodes["node-1"].unit)


def _waits(snapshot: ClusterSnapshot) -> None:
    snapshot.pods["uid-w"] = PodFacts(ref=pod("w"), state="Pending", units=9)


def _adds_a_node(snapshot: ClusterSnapshot) -> None:
    snapshot.ledger.set_node("node-2", cards(8), None)
    snapshot.nodes["node-2"] = NodeFacts(name="node-2")


def _loses_the_node(snapshot: ClusterSnapshot) -> None:
    snapshot.lose_node("node-1")


def _is_not_ready(snapshot: ClusterSnapshot) -> None:
    snapshot.nodes["node-1"] = NodeFacts(name="node-1", is_ready=False)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda _snapshot: None, []),
        (_gives, ["node-1 GCU0: 4/16 -> 10/16 +default/b (6)"]),
        (_takes, ["node-1 GCU0: 4/16 -> 0/16 -default/a (4)"]),
        (_moves, ["node-1 GCU0: 4/16 -> 0/16 -default/a (4)", "node-1 GCU1: 0/16 -> 4/16 +default/a (4)"]),
        (_sickens, ["node-1 GCU0: 4/16 -> 4/16!"]),
        (_waits, ["default/w: waits for 9"]),
        (_adds_a_node, ["node-2: came, Ready"]),
        (_loses_the_node, ["node-1: gone, or without cards"]),
        (_is_not_ready, ["node-1: Ready -> NotReady"]),
    ],
)
def test_a_change_is_reported_with_its_numbers(change: Callable[[ClusterSnapshot], None], lines: list[str]) -> None:
    snapshot = base()
    before = WatchedState.of(summarise(snapshot))
    change(snapshot)
    after = WatchedState.of(summarise(snapshot))
    assert changes_between(before, after) == lines
    assert changes_between(after, after) == []


def test_a_pod_that_waited_and_got_its_card_is_reported_on_both_sides() -> None:
    snapshot = base()
    _waits(snapshot)
    before = WatchedState.of(summarise(snapshot))
    give(snapshot, held("w", "node-1", (1, 9)))
    snapshot.pods["uid-w"] = PodFacts(ref=pod("w"), state="Running", node="node-1", units=9)
    assert changes_between(before, WatchedState.of(summarise(snapshot))) == [
        "node-1 GCU1: 0/16 -> 9/16 +default/w (9)",
        "default/w: waits no more",
    ]
