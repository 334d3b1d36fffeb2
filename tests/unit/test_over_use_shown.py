"""What is shown of a pod over its grant: by inspect, top, cards, explain, the extender and the page."""

from __future__ import annotations

import json

import pytest

from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import RemoteContractError
from gcushare.core.over_use.tracking import OverUse, PolledUse
from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import (
    OVER_USE,
    decode_over_use,
    encode_over_use,
    note_since_s,
    over_use_text,
    over_used_cards,
)
from tests.extender_objects import a_node, a_pod, on_card

SINCE = 1_763_790_000.0
NOTE = encode_over_use({0: OverUse(PolledUse(5 * GIB, 4 * GIB), SINCE, 6 * GIB)})
WORDS = "5.00 GiB of card 0 in use, 4.00 GiB granted, since 2025-11-22T05:40:00Z"


def over() -> dict[str, str]:
    return {OVER_USE: NOTE}


def snapshot() -> ClusterSnapshot:
    found = ClusterSnapshot(ENFLAME)
    greedy = a_pod("greedy", 4, node="n1", record=on_card(0, 4), annotations=over())
    modest = a_pod("modest", 4, node="n1", record=on_card(1, 4))
    found.count([a_node("n1", 16, 16)], [greedy, modest])
    return found


def summary() -> Summary:
    return summarise(snapshot())


def test_the_annotation_is_for_people_and_machines() -> None:
    assert json.loads(NOTE) == {
        "since": "2025-11-22T05:40:00Z",
        "cards": {"0": {"used": 5 * GIB, "granted": 4 * GIB, "peak": 6 * GIB}},
    }
    (read,) = decode_over_use(NOTE).values()
    assert (read.figures, read.since, read.peak) == (PolledUse(5 * GIB, 4 * GIB), SINCE, 6 * GIB)
    assert over_use_text(over()) == WORDS
    assert (note_since_s(over(), 0), note_since_s(over(), 1)) == (SINCE, None)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"since":"x","cards":{}}', '{"since":"2026-01-01T00:00:00Z","cards":{"99":{"used":1}}}']
)
def test_an_annotation_that_somebody_else_wrote_shows_nothing_and_breaks_nothing(text: str) -> None:
    with pytest.raises(RemoteContractError):
        decode_over_use(text)
    annotations = {OVER_USE: text}
    assert (over_use_text(annotations), note_since_s(annotations, 0)) == ("", None)
    assert over_used_cards(annotations) == set()
