"""Messages between a worker and its parent: every value and failure arrives unchanged."""

from __future__ import annotations

import math

import pytest

from gcushare.cards.errors import CallFailure, LibraryCallError, LibraryMissingError
from gcushare.cards.ports import HealthEvent, HealthReading
from gcushare.cards.worker.messages import (
    REQUEST,
    CardAnswer,
    EventAnswer,
    Operation,
    WorkerRequest,
    decode_answer,
    encode_failure,
    encode_line,
    encode_result,
)
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError, RemoteContractError


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(8, id="count"),
        pytest.param(
            CardAnswer(
                card=Card(index=3, uuid="GCU-3", memory_bytes=1 << 45, numa_node=1),
                reading=HealthReading(healthy=False, reason="燧原 off the bus", conclusive=True, lost=True),
                use=CardUse(memory_used_bytes=5, temperature_celsius=41.5, processes={7: 9, 4_000_000: 1}),
            ),
            id="card",
        ),
        pytest.param(CardAnswer(left_out=LeftOutCard(index=1, uuid="u", reason="MIG mode is on")), id="left out"),
        pytest.param(CardAnswer(use=CardUse(processes={})), id="use without a process"),
        pytest.param(EventAnswer(event=HealthEvent(uuid=None, reason="reset", critical=False)), id="event"),
        pytest.param(EventAnswer(), id="no event"),
        pytest.param(True, id="link"),
    ],
)
def test_every_result_survives_the_way(value: object) -> None:
    assert decode_answer(encode_result(value), type(value)) == value


def test_a_number_that_is_none_arrives_as_not_reported() -> None:
    sent = CardUse(temperature_celsius=math.nan)
    assert decode_answer(encode_result(sent), CardUse).temperature_celsius is None


@pytest.mark.parametrize("operation", list(Operation))
def test_every_request_survives_the_way(operation: Operation) -> None:
    request = WorkerRequest(operation, slot=3, uuids=("a", "b"), timeout_s=1.5)
    assert REQUEST.read(encode_line(request)) == request


def test_a_library_error_arrives_with_all_it_knew() -> None:
    failure = CallFailure("EfmlGetDevMem", 15, "EFML_ERROR_X", detail="why", is_unsupported=True, is_lost=True)
    sent = LibraryCallError(failure)
    with pytest.raises(LibraryCallError) as caught:
        decode_answer(encode_failure(sent), int)
    assert caught.value.failure == failure
    assert str(caught.value) == "EfmlGetDevMem failed with EFML_ERROR_X (15): why"


@pytest.mark.parametrize("kind", [LibraryMissingError, DeviceError])
def test_other_failures_keep_their_kind(kind: type[DeviceError]) -> None:
    with pytest.raises(DeviceError) as caught:
        decode_answer(encode_failure(kind("no library")), int)
    assert (type(caught.value), str(caught.value)) == (kind, "no library")


@pytest.mark.parametrize("body", [b"", b"{", b'{"result": "text"}', b"[]"])
def test_what_is_no_answer_is_the_peers_fault(body: bytes) -> None:
    with pytest.raises(RemoteContractError):
        decode_answer(body, int)


def test_a_text_with_a_line_feed_stays_one_line() -> None:
    line = encode_result(HealthReading(healthy=False, reason="first\nsecond"))
    assert line.count(b"\n") == 1
    assert decode_answer(line, HealthReading).reason == "first\nsecond"
