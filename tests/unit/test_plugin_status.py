"""The status document as a person reads it."""

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


def test_a_plugin_that_has_nothing_yet_is_shown_in_four_lines() -> None:
    text = render_status(node(unit=None, watch_age_seconds=None, problems={"cards": "no card was found"}))
    assert text.splitlines() == [
        "Node node-1, vendor enflame, unit -, version 1.2.3",
        "Registrations 1, corrections 2, unconfirmed allocations 0, API server heard never",
        "",
        "Problems",
        "  cards: no card was found",
    ]


def test_cards_and_pods_stand_in_tables_with_their_states_in_words() -> None:
    text = render_status(
        node(
            cards=(
                card(0, held_units=4, promised_units=2, reserved_units=1, mode="shared"),
                card(1, health=Health.UNHEALTHY, reason="lost", cordoned=True),
            ),
            left_out=(LeftOutCard(index=2, uuid="GCU-2", reason="MIG is on"),),
            pods=(
                pod("d/a", recorded_cards=(0,), assigned=True, held_by_card={0: 4}),
                pod("d/b", recorded_cards=(1,), unconfirmed=("c0",), held_by_card={0: 4}),
                pod("d/c"),
                pod("d/d", recorded_cards=(0, 1), held_by_card={0: 2, 1: 2}),
            ),
            unreadable_pods=(UnreadableStatus(pod="d/e", reason="'zero' is not a whole number"),),
            foreign_containers=1,
        )
    )
    assert text.splitlines()[2:] == [
        "Containers with device ids of another plugin: 1; see this node's events",
        "",
        "No problem",
        "",
        "Cards",
        "  INDEX  UUID   MODE    UNITS  HELD  PROMISED  RESERVED  STATE",
        "  0      GCU-0  shared  16     4     2         1         healthy",
        "  1      GCU-1  -       16     0     0         0         unhealthy: lost, cordoned",
        "",
        "Pods",
        "  POD  UNITS  RECORDED  HELD                      STATE",
        "  d/a  4      0         4 of card 0               assigned",
        "  d/b  4      1         4 of card 0               unconfirmed: c0",
        "  d/c  4      -         -                         not admitted",
        "  d/d  4      0,1       2 of card 0, 2 of card 1  not marked assigned yet",
        "  left out: card 2 (GCU-2): MIG is on",
        "  unreadable: pod d/e: 'zero' is not a whole number",
    ]
