"""A card's use from the plugins' statuses with its grants; which pods are over, and what the driver may take."""

from __future__ import annotations

import pytest

from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.top.rows import Views, pod_use_rows, use_rows
from gcushare.cli.top.top import pod_use_lines
from gcushare.cluster.node_view import view_status
from gcushare.core.units import GIB
from gcushare.wire.documents.plugin_status import CardStatus, PodOnNode
from tests.builders import card as offered
from tests.builders import cards, held
from tests.unit.card_views import card, give, picture_of, pod, status, use


def views(*reported: CardStatus, pods: tuple[PodOnNode, ...] = ()) -> Views:
    return {"node-1": view_status(status(*reported, pods=pods, pod_use=""), "plugin.example", {})}


def used(*sizes_gib: float) -> Views:
    return views(*(card(index, use=use(size)) for index, size in enumerate(sizes_gib)))


def summary_of(*units: int) -> Summary:
    """A node with cards of 16 GB and these units granted."""
    snapshot = picture_of(("node-1", cards(*[16] * len(units)), "1"))
    for index, amount in enumerate(units):
        if amount:
            give(snapshot, held(f"pod-{index}", "node-1", (index, amount)))
    return summarise(snapshot)


@pytest.mark.parametrize(
    ("granted", "really", "is_over"),
    [
        pytest.param(8, 7.9, False, id="less than granted"),
        pytest.param(8, 8.4, False, id="what a driver takes, 1/32 of the card, is no one's fault"),
        pytest.param(8, 8.6, True, id="more than that"),
        pytest.param(0, 0.3, False, id="an idle card"),
        pytest.param(0, 3.0, True, id="in use by no one that was granted anything"),
    ],
)
def test_a_card_is_over_when_more_is_used_than_granted_and_the_driver_needs(
    granted: int, really: float, is_over: bool
) -> None:
    (row,) = use_rows(summary_of(granted), used(really))
    assert row.is_over is is_over


def test_what_is_kept_back_for_the_driver_counts_before_the_share() -> None:
    snapshot = picture_of(("node-1", [offered(0, 14, memory_bytes=16 * GIB, reserved_units=2)], "1"))
    give(snapshot, held("a", "node-1", (0, 4)))
    assert [row.is_over for row in use_rows(summarise(snapshot), used(5.9))] == [False]
    assert [row.is_over for row in use_rows(summarise(snapshot), used(6.1))] == [True]


def test_the_table_of_pods_says_what_counts_their_use() -> None:
    pods = (
        pod("default/a", {0: 4}, used_by_card={0: 6 * GIB}, used_by_driver=(0,)),
        pod("default/b", {0: 4}, used_by_card={0: 4 * GIB}),
    )
    summary = summary_of(8)
    found = pod_use_rows(summary, views(card(0, use=use(10)), pods=pods))
    lines = [line.plain.split() for line in pod_use_lines(summary, found, None)]
    assert [line[6] for line in lines[1:4]] == ["BY", "driver", "processes"]


def test_control_characters_of_a_name_cannot_reach_the_terminal() -> None:
    summary = summary_of(8)
    found = views(card(0), pods=(pod("default/a\x1b[2J\n", {0: 4}, used_by_card={0: 6}),))
    text = "".join(line.plain for line in pod_use_lines(summary, pod_use_rows(summary, found), None))
    assert r"default/a\x1b[2J\n" in text
    assert "\x1b" not in text
