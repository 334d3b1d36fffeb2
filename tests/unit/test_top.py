"""A card's use from the plugins' metrics with its grants; which pods are over, and what the driver may take."""

from __future__ import annotations

import pytest

from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.top.rows import (
    MEMORY,
    POD_BY_DRIVER,
    POD_GRANTED,
    POD_USED,
    UNATTRIBUTED,
    CardKey,
    CardReadings,
    parse_metrics,
    pod_use_rows,
    use_rows,
)
from gcushare.cli.top.top import pod_use_lines, use_csv, use_document, use_lines
from gcushare.core.cards import InventoryCard
from gcushare.core.errors import RemoteContractError
from gcushare.core.units import GIB
from tests.builders import cards, held
from tests.unit.inspect_snapshots import give, picture_of

LABELS = 'vendor="enflame",node="node-1",card="1",uuid="u",model="T20"'
SERVED = f"""# HELP gcushare_card_units Units.
# TYPE gcushare_card_units gauge
gcushare_card_units{{{LABELS}}} 16.0
# TYPE gcushare_card_memory_used_bytes gauge
gcushare_card_memory_used_bytes{{{LABELS}}} 4.294967296e+09
# TYPE gcushare_card_power_watts gauge
gcushare_card_power_watts{{{LABELS}}} NaN
# TYPE gcushare_card_temperature_celsius gauge
gcushare_card_temperature_celsius{{{LABELS}}} +Inf
"""


def used(*sizes_gib: float) -> dict[CardKey, CardReadings]:
    return {("node-1", index): CardReadings({MEMORY: size * GIB}) for index, size in enumerate(sizes_gib)}


def summary_of(*units: int) -> Summary:
    """A node with cards of 16 GB and these units granted."""
    snapshot = picture_of(("node-1", cards(*[16] * len(units)), "1"))
    for index, amount in enumerate(units):
        if amount:
            give(snapshot, held(f"pod-{index}", "node-1", (index, amount)))
    return summarise(snapshot)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# TYPE up gauge\nup 1\n", id="somebody else's metrics"),
        pytest.param("<html>not found</html>", id="a page"),
        pytest.param('gcushare_card_units{node="n"', id="cut off"),
        pytest.param(SERVED.replace('card="1"', 'card="x"'), id="a card that is no number"),
    ],
)
def test_what_no_plugin_serves_is_refused(text: str) -> None:
    with pytest.raises(RemoteContractError):
        parse_metrics(text, "enflame")


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
    snapshot = picture_of(
        (
            "node-1",
            [InventoryCard(index=0, uuid="u", memory_bytes=16 * GIB, units=14, reserved_units=2)],
            "1",
        )
    )
    give(snapshot, held("a", "node-1", (0, 4)))
    assert [row.is_over for row in use_rows(summarise(snapshot), used(5.9))] == [False]
    assert [row.is_over for row in use_rows(summarise(snapshot), used(6.1))] == [True]


def test_the_table_names_the_pods_of_a_card_that_is_over_and_the_document_says_it_in_bytes() -> None:
    summary = summary_of(8, 4)
    rows = use_rows(summary, used(10.0))
    lines = [line.plain for line in use_lines(summary, rows, None, is_wide=False)]
    assert lines[0].split()[:5] == ["NAME", "GCU", "GRANTED(GB)", "USED(GB)", "TOTAL(GB)"]
    assert lines[1].split(maxsplit=9)[:5] == ["node-1", "0", "8.0", "10.0", "16.0"]
    assert lines[1].endswith("over by 2.0: default/pod-0")
    assert lines[2].split() == ["node-1", "1", "4.0", "-", "16.0", "-", "-", "-", "1"]
    first, second = use_document(rows, [], {})["cards"]
    said = (first["grantedBytes"], first["usedBytes"], first["over"], first["pods"])
    assert said == (8 * GIB, 10 * GIB, True, ["default/pod-0"])
    assert (second["usedBytes"], second["over"]) == (None, False)


def reported(card: int, unattributed: int = 0, **pods: tuple[float, float]) -> dict[CardKey, CardReadings]:
    """Readings of a card whose plugin reports its pods: granted and used, in GiB by name."""
    figures = {
        f"default/{name}": {POD_GRANTED: granted * GIB, POD_USED: used * GIB} for name, (granted, used) in pods.items()
    }
    return {("node-1", card): CardReadings({MEMORY: 8.0 * GIB, UNATTRIBUTED: unattributed}, figures)}


def test_the_table_of_pods_says_what_counts_their_use() -> None:
    readings = reported(0, a=(4, 6), b=(4, 4))
    readings["node-1", 0].pods["default/a"][POD_BY_DRIVER] = 1.0
    summary = summary_of(8)
    lines = [line.plain.split() for line in pod_use_lines(summary, pod_use_rows(summary, readings), None)]
    assert [line[6] for line in lines[1:4]] == ["BY", "driver", "processes"]


def test_control_characters_of_a_label_cannot_reach_the_terminal() -> None:
    summary = summary_of(8)
    hostile = {"default/a\x1b[2J\n": {POD_GRANTED: 4.0, POD_USED: 6.0}}
    readings = {("node-1", 0): CardReadings({UNATTRIBUTED: 0.0}, hostile)}
    rows, pods = use_rows(summary, readings), pod_use_rows(summary, readings)
    text = "".join(line.plain for line in pod_use_lines(summary, pods, None)) + use_csv(rows, pods)
    assert text.count(r"default/a\x1b[2J\n") == 2
    assert "\x1b" not in text
