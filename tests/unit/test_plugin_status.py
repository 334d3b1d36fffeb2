"""The status document as a person reads it."""

import pytest
from rich.cells import cell_len

from gcushare.cluster.card_drawing.draw import view_lines
from gcushare.cluster.card_drawing.node_view import CardsView, view_status
from gcushare.core.cards import Health, LeftOutCard
from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.wire.documents.plugin_status import CardStatus, PluginStatus, PodOnNode, UnreadableStatus


def card(index: int, **changes: object) -> CardStatus:
    facts: dict[str, object] = {
        "index": index, "uuid": f"GCU-{index}", "model": "S60", "serial": "", "pci_address": "", "numa_node": None,
        "memory_bytes": 1 << 34, "units": 16, "reserved_units": 0, "lost_bytes": 0, "held_units": 0,
        "promised_units": 0, "health": Health.HEALTHY, "reason": "", "cordoned": False,
    }  # fmt: skip
    return CardStatus(**(facts | changes))  # type: ignore[arg-type]  # a test's shorthand


def pod(name: str, **changes: object) -> PodOnNode:
    facts: dict[str, object] = {
        "pod": name, "uid": "u", "units": 4, "recorded_cards": (), "assigned": False, "held_by_card": {},
        "containers": {}, "unconfirmed": (),
    }  # fmt: skip
    return PodOnNode(**(facts | changes))  # type: ignore[arg-type]  # a test's shorthand


def node(**changes: object) -> PluginStatus:
    facts: dict[str, object] = {
        "version": "1.2.3", "vendor": "enflame", "node": "node-1", "problems": {}, "unit": "1", "driver": "",
        "cards": (), "left_out": (), "pods": (), "unreadable_pods": (), "foreign_containers": 0,
        "unconfirmed_allocations": 0, "watch_age_seconds": 3.5, "registrations": 1, "corrections": 2,
    }  # fmt: skip
    return PluginStatus(**(facts | changes))  # type: ignore[arg-type]  # a test's shorthand


def lines_of(status: PluginStatus) -> list[str]:
    return render_status(status, origin="http://127.0.0.1:32767", width=None).splitlines()


def test_a_plugin_that_has_nothing_yet_is_shown_in_a_few_lines() -> None:
    assert lines_of(node(unit=None, watch_age_seconds=None, problems={"cards": "no card was found"})) == [
        "node-1   enflame   driver unknown   plugin 1.2.3, http://127.0.0.1:32767",
        "0 cards  0 pods",
        "problem of cards: no card was found",
        "",
        "Registrations 1, corrections 2, unconfirmed allocations 0, API server heard never",
        "Problems: 1, see above",
    ]


def test_cards_are_drawn_as_gcushare_cards_draws_them() -> None:
    status = node(
        cards=(
            card(0, held_units=4, promised_units=2, reserved_units=1, mode="shared"),
            card(1, health=Health.UNHEALTHY, reason="lost", cordoned=True),
        ),
        left_out=(LeftOutCard(index=2, uuid="GCU-2", reason="MIG is on"),),
        pods=(pod("d/a", recorded_cards=(0,), assigned=True, held_by_card={0: 4}, cards=(0,)), pod("d/c")),
        unreadable_pods=(UnreadableStatus(pod="d/e", reason="'zero' is not a whole number"),),
    )
    view = CardsView(nodes=(view_status(status, "http://127.0.0.1:32767", {}),), failures={})
    drawn = [line.plain.rstrip() for line in view_lines(view, None, is_wide=True)]
    assert lines_of(status)[: len(drawn)] == drawn
    assert "card 2 GCU-2 is not shared: MIG is on" in drawn
    assert "pod d/e cannot be read: 'zero' is not a whole number" in drawn


def test_below_the_cards_stands_what_only_the_plugin_knows() -> None:
    pods = (
        pod("d/a", recorded_cards=(0,), assigned=True, held_by_card={0: 4}),
        pod("d/b", recorded_cards=(1,), assigned=True, held_by_card={0: 4}),
        pod("d/c"),
        pod("d/d", recorded_cards=(0, 1), held_by_card={0: 2, 1: 2}),
        pod("d/e", held_by_card={1: 4}),
    )
    found = lines_of(node(pods=pods, foreign_containers=1))
    assert found[found.index("") :] == [
        "",
        "Registrations 1, corrections 2, unconfirmed allocations 0, API server heard 3.5s ago",
        "Containers with device ids of another plugin: 1; see this node's events",
        "Pod d/b holds card 0: its record names card 1",
        "Pod d/d holds card 0,1: its record names card 0,1, not marked assigned yet",
        "Pod d/e holds card 1: it has no record, not marked assigned yet",
        "No problem",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    pods = (pod(f"default/{'a-long-name-' * 4}0", recorded_cards=(1,), held_by_card={0: 4}),)
    status = node(cards=(card(0),), pods=pods, problems={"cards": "a word " * 30})
    lines = render_status(status, origin="http://127.0.0.1:32767", width=width).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_escapes_of_a_pod_do_not_reach_the_terminal() -> None:
    pods = (pod("d/a\x1b[2J", recorded_cards=(1,), held_by_card={0: 4}),)
    assert all(line.isprintable() for line in lines_of(node(pods=pods)))
