"""Every decoder, given its examples and changes of them (`make fuzz` tries more), and the evaluation itself."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import ConfigError, GcushareError, RemoteContractError
from tests.fuzz import evaluating
from tests.fuzz.decoders import ALL_DECODERS
from tests.fuzz.evaluating import evaluate, evaluate_with_memory
from tests.fuzz.mutations import changed
from tests.unit.foreign_inputs import Decoder

CORPUS = Path(__file__).parent / "corpus"
"""A folder of examples per decoder: hand-written files, and inputs that once went wrong (``found-*``)."""


def folder_of(name: str) -> Path:
    return CORPUS / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def examples_of(name: str) -> dict[str, bytes]:
    """Every example of a decoder by its name: those in code next to the decoder, and its files."""
    inline = {f"{number}": body for number, body in enumerate(ALL_DECODERS[name].examples)}
    return inline | {path.name: path.read_bytes() for path in sorted(folder_of(name).glob("*"))}


EACH_DECODER = pytest.mark.parametrize("name", ALL_DECODERS, ids=lambda name: folder_of(name).name)


@EACH_DECODER
def test_a_decoder_takes_its_examples(name: str) -> None:
    decoder, examples = ALL_DECODERS[name], examples_of(name)
    assert examples, f"write one to {folder_of(name)}"
    for example, body in examples.items():
        assert evaluate_with_memory(decoder, body) is None, example
        if not example.startswith(("refused-", "found-")):
            decoder.read(body)


@pytest.mark.slow
@EACH_DECODER
@given(random=st.randoms(use_true_random=True))
def test_a_decoder_takes_changed_examples(name: str, random: Random) -> None:
    """One input of ten is measured for memory, which takes several times the time."""
    decoder, examples = ALL_DECODERS[name], list(examples_of(name).values())
    for evaluated in (*[evaluate] * 9, evaluate_with_memory):
        body = changed(examples, random)
        assert evaluated(decoder, body) is None, body


def test_every_folder_of_examples_belongs_to_a_decoder() -> None:
    decoders = [folder_of(name).name for name in ALL_DECODERS]
    assert len(set(decoders)) == len(decoders)
    assert {path.name for path in CORPUS.iterdir()} <= set(decoders)


def raising(error: GcushareError | KeyError) -> Decoder:
    def read(_body: bytes) -> object:
        raise error

    return Decoder(read, (), (RemoteContractError, ConfigError))


def endless(_body: bytes) -> object:
    while True:
        pass


@pytest.mark.parametrize(
    ("decoder", "body", "why"),
    [
        (raising(KeyError()), b"", "KeyError instead of the decoder's error"),
        (Decoder(endless, ()), b"", "took 0 s and did not end"),
        (Decoder(lambda _body: bytes(64 << 20), ()), b"", "took 64 MiB; at most 8 MiB"),
        (raising(RemoteContractError("one\ntwo")), b"", "a message of several lines"),
        (raising(RemoteContractError("\ud800")), b"", "a message that cannot be written as UTF-8"),
        (raising(ConfigError("short", "x" * 2100)), b"", "a message of 2100 characters"),
        (raising(ConfigError("short", "x" * 2100)), b"what it may quote of what was given", None),
        (raising(RemoteContractError("no")), b"", None),
    ],
)
def test_the_evaluation_sees(decoder: Decoder, body: bytes, why: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "HANGS_S", 0.2)
    assert evaluate_with_memory(decoder, body) == why


def test_the_evaluation_sees_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "TIME_S", -1.0)
    assert evaluate(Decoder(len, ()), b"") == "took 0.0 s; at most -1.0 s"
    assert evaluate(Decoder(len, ()), b"x" * 4000) is None
