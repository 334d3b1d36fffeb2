"""The status document as a person reads it."""

import pytest

from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.node.status import is_own_machine
from gcushare.wire.documents.plugin_status import PluginStatus, PodOnNode


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


def test_escapes_of_a_pod_do_not_reach_the_terminal() -> None:
    pods = (pod("d/a\x1b[2J", recorded_cards=(1,), held_by_card={0: 4}),)
    assert all(line.isprintable() for line in lines_of(node(pods=pods)))


@pytest.mark.parametrize(
    ("address", "is_own"),
    [
        ("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False), ("::ffff:10.0.0.7", False), ("fe80::1%eth0", False), ("", False), (None, False),
        ("localhost", False),
    ],
)  # fmt: skip
def test_a_caller_is_of_this_machine_by_its_address_alone(address: str | None, is_own: bool) -> None:
    assert is_own_machine(address) is is_own
