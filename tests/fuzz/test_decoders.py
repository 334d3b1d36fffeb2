"""Every decoder, given its examples (`make fuzz` changes them); and the evaluation and the mutations themselves."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.wire.protos import podresources_pb2
from tests.fuzz import evaluating, messages, trees
from tests.fuzz.__main__ import main
from tests.fuzz.corpus_files import CORPUS, examples_of, folder_of
from tests.fuzz.decoders import ALL_DECODERS
from tests.fuzz.evaluating import evaluate, evaluate_with_memory
from tests.fuzz.mutations import mutated
from tests.fuzz.shrinking import shrunk
from tests.unit.foreign_inputs import Decoder


@pytest.mark.parametrize("name", ALL_DECODERS)
def test_a_decoder_takes_its_examples(name: str) -> None:
    decoder, examples = ALL_DECODERS[name], examples_of(name)
    assert examples, f"write one to {folder_of(name)}"
    for example, body in examples.items():
        assert evaluate_with_memory(decoder, body) is None, example
        if not example.startswith(("refused-", "found-")):
            decoder.read(body)


def test_every_folder_of_examples_belongs_to_a_decoder() -> None:
    decoders = [folder_of(name).name for name in ALL_DECODERS]
    assert len(set(decoders)) == len(decoders)
    assert {path.name for path in CORPUS.iterdir()} <= set(decoders)


def reading(what: str) -> Decoder:
    """A decoder that does what no decoder may."""

    def read(body: bytes) -> object:
        match what:
            case "foreign error":
                raise KeyError(body)
            case "endless":
                while True:
                    pass
            case "memory":
                return bytes(64 << 20)
            case "lines":
                raise RemoteContractError("one\ntwo")
            case "long":
                raise ConfigError("short", "x" * 2100)
            case "surrogate":
                raise RemoteContractError("\ud800")
            case _:
                raise RemoteContractError("no")

    return Decoder(read, ())


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("foreign error", "KeyError instead of the decoder's error"),
        ("endless", "took 0 s and did not end"),
        ("memory", "took 64 MiB; at most 8 MiB"),
        ("lines", "a message of several lines"),
        ("surrogate", "a message that cannot be written as UTF-8"),
        ("well", None),
    ],
)
def test_the_evaluation_sees(what: str, why: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "HANGS_S", 0.2)
    assert evaluate_with_memory(reading(what), b"") == why


def test_the_evaluation_sees_a_long_message_among_several() -> None:
    decoder = Decoder(reading("long").read, (), ConfigError)
    assert evaluate(decoder, b"") == "a message of 2100 characters"
    assert evaluate(decoder, b"what it may quote of what was given") is None


def test_the_evaluation_sees_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "TIME_S", -1.0)
    assert evaluate(Decoder(len, ()), b"") == "took 0.0 s; at most -1.0 s"
    assert evaluate(Decoder(len, ()), b"x" * 4000) is None


def test_inputs_are_the_same_for_the_same_seed_and_differ_otherwise() -> None:
    examples = [b'{"a": [1, "b"]}', b"a: 1\nb: 2\n"]
    first, again, other = (list(islice(mutated(examples, Random(seed)), 200)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) > 150


def test_a_changed_document_is_mostly_json_still_and_has_keys_twice() -> None:
    random, body = Random(1), json.dumps({"a": {"b": [1, 2, "x"], "c": '{"inner": 1}'}, "d": None}).encode()
    changed = [trees.change_tree(body, random) for _ in range(500)]
    read = [each for each in changed if each is not None and is_json(each)]
    assert len(read) > 350
    assert any(b'"a":{"b":[1, 2, "x"]' in each or each.count(b'"d":') > 1 for each in read)
    assert any(b'{\\"' in each and b'{\\"inner\\":1}' not in each for each in read), "JSON in a string is changed too"


def is_json(body: bytes) -> bool:
    try:
        trees.parse(body)
    except (ValueError, RecursionError):
        return False
    return True


def test_a_changed_message_is_a_message_still() -> None:
    answer = podresources_pb2.ListPodResourcesResponse()
    answer.pod_resources.add(name="p", namespace="d").containers.add(name="c").devices.add(device_ids=["000", "001"])
    body, random = answer.SerializeToString(), Random(1)
    assert messages.write(messages.parse(body)) == body
    changed = [messages.change_message(body, random) for _ in range(300)]
    assert len(set(changed)) > 50
    for each in changed:
        assert each is not None
        messages.parse(each)


def test_a_failing_input_is_made_small() -> None:
    assert shrunk(b"x" * 1000 + b"[bad]" + b"y" * 1000, lambda body: b"bad" in body) == b"bad"
    assert shrunk(b"a7", lambda body: len(body) == 2) == b"00"


def test_the_command_writes_what_it_found_and_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(body: bytes) -> object:
        if len(body) > 3:
            raise KeyError(body)
        return None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tests.fuzz.__main__.TURN_S", 0.1)
    monkeypatch.setitem(ALL_DECODERS, "leaky", Decoder(read, (b"an example",)))
    monkeypatch.setattr("sys.argv", ["fuzz", "--decoder", "leaky", "--minutes", "0.001"])
    assert main() == 1
    (found,) = tmp_path.rglob("found-*")
    assert found.read_bytes() == b"0000"
    assert f"--decoder 'leaky' --input {found.relative_to(tmp_path)}" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["fuzz", "--decoder", "leaky", "--input", str(found)])
    with pytest.raises(KeyError):
        main()
