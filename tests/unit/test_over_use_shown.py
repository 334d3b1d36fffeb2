"""The annotation of a pod over its grant: what is shown of it, and of what somebody else wrote there."""

from __future__ import annotations

import json

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.core.over_use.tracking import OverUse, PolledUse
from gcushare.core.units import GIB
from gcushare.wire.annotations import (
    OVER_USE,
    decode_over_use,
    encode_over_use,
    note_since_s,
    over_use_text,
    over_used_cards,
)

SINCE = 1_763_790_000.0
NOTE = encode_over_use({0: OverUse(PolledUse(5 * GIB, 4 * GIB), SINCE, 6 * GIB)})
SHOWN = {OVER_USE: NOTE}
WORDS = "5.00 GiB of card 0 in use, 4.00 GiB granted, since 2025-11-22T05:40:00Z"


def test_the_annotation_is_for_people_and_machines() -> None:
    assert json.loads(NOTE) == {
        "since": "2025-11-22T05:40:00Z",
        "cards": {"0": {"used": 5 * GIB, "granted": 4 * GIB, "peak": 6 * GIB}},
    }
    (read,) = decode_over_use(NOTE).values()
    assert (read.figures, read.since, read.peak) == (PolledUse(5 * GIB, 4 * GIB), SINCE, 6 * GIB)
    assert over_use_text(SHOWN) == WORDS
    assert (note_since_s(SHOWN, 0), note_since_s(SHOWN, 1)) == (SINCE, None)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"since":"x","cards":{}}', '{"since":"2026-01-01T00:00:00Z","cards":{"99":{"used":1}}}']
)
def test_an_annotation_that_somebody_else_wrote_shows_nothing_and_breaks_nothing(text: str) -> None:
    with pytest.raises(RemoteContractError):
        decode_over_use(text)
    annotations = {OVER_USE: text}
    assert (over_use_text(annotations), note_since_s(annotations, 0)) == ("", None)
    assert over_used_cards(annotations) == set()
