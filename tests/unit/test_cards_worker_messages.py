"""Messages between a worker and its parent: what the real ones of tests/protocol do not say to each other."""

from __future__ import annotations

import math

import pytest

from gcushare.cards.errors import CallFailure, LibraryCallError
from gcushare.cards.ports import HealthReading
from gcushare.cards.worker.messages import CardAnswer, decode_answer, encode_failure, encode_result
from gcushare.core.cards import CardUse
from gcushare.core.errors import RemoteContractError


def test_a_number_that_is_none_arrives_as_not_reported_and_a_list_without_entries_as_such() -> None:
    sent = CardAnswer(use=CardUse(temperature_celsius=math.nan, processes={}))
    assert decode_answer(encode_result(sent), CardAnswer).use == CardUse(processes={})


def test_a_library_error_arrives_with_all_it_knew() -> None:
    failure = CallFailure("EfmlGetDevMem", 15, "EFML_ERROR_X", detail="why", is_unsupported=True, is_lost=True)
    with pytest.raises(LibraryCallError) as caught:
        decode_answer(encode_failure(LibraryCallError(failure)), int)
    assert caught.value.failure == failure
    assert str(caught.value) == "EfmlGetDevMem failed with EFML_ERROR_X (15): why"


@pytest.mark.parametrize("body", [b"", b"{", b'{"result": "text"}', b"[]"])
def test_what_is_no_answer_is_the_peers_fault(body: bytes) -> None:
    with pytest.raises(RemoteContractError):
        decode_answer(body, int)


def test_a_text_with_a_line_feed_stays_one_line() -> None:
    line = encode_result(HealthReading(healthy=False, reason="first\nsecond"))
    assert line.count(b"\n") == 1
    assert decode_answer(line, HealthReading).reason == "first\nsecond"
