"""The status document as a person reads it."""

from gcushare.core.cards import Health
from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.wire.documents.plugin_status import CardStatus, PluginStatus, PodOnNode


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


def test_escapes_of_a_pod_do_not_reach_the_terminal() -> None:
    pods = (pod("d/a\x1b[2J", recorded_cards=(1,), held_by_card={0: 4}),)
    assert all(line.isprintable() for line in lines_of(node(pods=pods)))
