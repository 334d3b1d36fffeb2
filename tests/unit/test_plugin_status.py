"""The status document as a person reads it."""

import pytest

from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.node.status import is_own_machine
from tests.unit.card_views import pod, status


def test_escapes_of_a_pod_do_not_reach_the_terminal() -> None:
    found = status(pods=(pod("d/a\x1b[2J", {0: 4}, recorded_cards=(1,)),))
    text = render_status(found, origin="http://127.0.0.1:32767", width=None)
    assert all(line.isprintable() for line in text.splitlines())


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
