"""The plugin's command line from words to settings, and its status as a person reads it."""

from __future__ import annotations

import pytest

from gcushare.core.errors import ConfigError
from gcushare.device_plugin.command_line import PROGRAM
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.node.cards import monitor_settings
from gcushare.node.node_settings import Reserve
from gcushare.node.status import is_own_machine
from gcushare.runtime.settings.loading import load_settings
from tests.unit.card_views import pod, status


def load(*argv: str) -> PluginSettings:
    return load_settings(PROGRAM, argv, {})


@pytest.mark.parametrize(
    ("argv", "stale_after_s"),
    [
        pytest.param((), 60.0, id="a minute"),
        pytest.param(("--poll-interval", "1h"), 3 * 3600.0, id="three looks that are an hour apart"),
        pytest.param(("--poll-interval", "21s"), 63.0, id="three looks that are a little over a minute"),
    ],
)
def test_a_card_without_an_answer_stays_well_for_a_minute_and_for_several_looks(
    argv: tuple[str, ...], stale_after_s: float
) -> None:
    assert monitor_settings(load(*argv).cards, by_uuid=False).policy.stale_after_s == stale_after_s


@pytest.mark.parametrize(
    ("text", "reserve"), [("0", Reserve()), ("512MiB", Reserve(bytes=512 << 20)), ("5%", Reserve(percent=5.0))]
)
def test_a_reserve_is_an_amount_or_a_share(text: str, reserve: Reserve) -> None:
    assert load("--reserve", text).cards.reserve == reserve


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("--reserve", "101%"), "more than 100%"),
        (("--memory-unit", "2"), "accepted: GiB or MiB or 1 or 0.1 or 0.01 or 0.001 or auto"),
        (("--device-list-strategy", "env,mount"), "'env,mount' is not one of the accepted words"),
        (("--application-xids", "0"), "too small"),
        (("--status", "--remove-from-node"), "exclude each other"),
    ],
)
def test_a_wrong_word_is_refused_with_what_is_accepted(argv: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(*argv)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("--idle", "evict"), "--idle evict needs --pod-use"),
        (("--idle", "evict", "--pod-use", "--idle-after", "1m", "--poll-interval", "21s"), "less than three times"),
        (("--idle-namespaces", "team/a"), "a namespace with \\* and \\?"),
    ],
)
def test_evictions_of_idle_pods_that_cannot_work_are_refused(argv: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(*argv)


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
