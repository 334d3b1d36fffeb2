"""What is true of every decoder of untrusted bytes; ``tests/fuzz`` tries what comes through them."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

import gcushare
from gcushare.core.errors import RemoteContractError
from gcushare.kube.client import PAGE
from gcushare.kube.connection.watch_lines import EVENT
from gcushare.kube.resources import Resource
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.objects import HEAD, POD
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, MAX_DEPTH, OBJECT_DEPTH, BoundedJsonDecoder
from gcushare.wire.untrusted_yaml import MAX_YAML_DEPTH, load_yaml
from tests.unit.foreign_inputs import DECODERS, JSON_DECODERS

T = TypeVar("T")

SOURCE = Path(gcushare.__file__).parent

DECODES = re.compile(
    r"json\.loads?\(|msgspec\.(?:json|yaml|toml|msgpack)\.(?:decode|Decoder)|msgspec\.convert|\bYAML\(|safe_load"
    r"|\.json\(\)|ParseFromString|\.FromString\(|tomllib|pickle|marshal\."
)
IN_WIRE = {"wire/untrusted_json.py", "wire/untrusted_yaml.py"}
ELSEWHERE = {
    "wire/extender_api.py": "the scheduler's calls: cut by hand for speed; one function turns what the parser raises",
    "wire/extender_preempt.py": "as above, with the same function",
    "wire/protos/services.py": "protobuf messages of the kubelet; DecodeError is all that parsing raises",
    "cards/worker/main.py": "its own command line, written by its parent",
    "config_manager/scheduler_config/yaml_tree.py": "events instead of values, with the bounds of wire.untrusted_yaml",
    "config_manager/host/manifest_text.py": "parts of a tree that yaml_tree read; what cannot be converted is empty",
    "cards/simulated/file.py": "what untrusted_yaml read of an admin's file",
    "cli/terminal/output.py": "writes YAML, reads none",
}
"""Decoders elsewhere, each with its reason; their functions stand among the decoders of the tests all the same."""


def found_in_programs(kind: type[T]) -> Iterator[tuple[str, T]]:
    """Every module-level value of a kind, with its name."""
    for module in pkgutil.walk_packages([str(SOURCE)], "gcushare."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, kind):
                yield f"{module.name}.{name}", value


def test_every_json_decoder_of_the_programs_is_among_the_tested() -> None:
    missing = [name for name, decoder in found_in_programs(BoundedJsonDecoder) if decoder not in JSON_DECODERS]
    assert not missing, f"add an example to tests/unit/foreign_inputs.py for {missing}"


@pytest.mark.slow
def test_no_program_decodes_foreign_bytes_except_the_decoders() -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(DECODES.search(line.partition("#")[0]) for line in path.read_text().splitlines())
    }
    assert found - IN_WIRE == ELSEWHERE.keys(), "read it through wire.untrusted_json or wire.untrusted_yaml"


def numbers_without_bounds(kind: msgspec.inspect.Type, where: str, seen: set[int]) -> Iterator[str]:
    """Every whole number that a document of this kind may make arbitrarily large."""
    match kind:
        case msgspec.inspect.IntType():
            low, high = (kind.ge, kind.gt), (kind.le, kind.lt)
            if all(each is None for each in low) or all(each is None for each in high):
                yield where
        case msgspec.inspect.StructType() if id(kind.cls) not in seen:
            for field in kind.fields:
                yield from numbers_without_bounds(field.type, f"{where}.{field.encode_name}", {*seen, id(kind.cls)})
        case msgspec.inspect.DictType():
            yield from numbers_without_bounds(kind.key_type, f"{where} (key)", seen)
            yield from numbers_without_bounds(kind.value_type, f"{where}[...]", seen)
        case msgspec.inspect.UnionType():
            for each in kind.types:
                yield from numbers_without_bounds(each, where, seen)
        case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType() | msgspec.inspect.SetType():
            yield from numbers_without_bounds(kind.item_type, f"{where}[]", seen)
        case _:
            return


@pytest.mark.parametrize("decoder", JSON_DECODERS, ids=lambda decoder: decoder.what)
def test_no_number_of_a_decoder_is_without_bounds(decoder: BoundedJsonDecoder[Any]) -> None:
    assert list(numbers_without_bounds(msgspec.inspect.type_info(decoder.kind), "$", set())) == []


@pytest.mark.slow
def test_no_number_of_an_object_of_the_api_server_is_without_bounds() -> None:
    resources = dict(found_in_programs(Resource))
    found = {
        name: list(numbers_without_bounds(msgspec.inspect.type_info(each.type), "$", set()))
        for name, each in resources.items()
    }
    assert len(found) > 5
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def holds_anything(kind: msgspec.inspect.Type) -> bool:
    match kind:
        case msgspec.inspect.AnyType():
            return True
        case msgspec.inspect.DictType():
            return holds_anything(kind.value_type)
        case msgspec.inspect.StructType():
            return any(holds_anything(field.type) for field in kind.fields)
        case _:
            return False


@pytest.mark.parametrize("decoder", JSON_DECODERS, ids=lambda decoder: decoder.what)
def test_what_stays_of_unknown_shape_is_bounded_in_depth(decoder: BoundedJsonDecoder[Any]) -> None:
    assert decoder.max_depth is not None or not holds_anything(msgspec.inspect.type_info(decoder.kind))


def nested(levels: int) -> bytes:
    return b'{"f:a":' * levels + b"{}" + b"}" * levels


def is_early_312() -> bool:
    """Whether this is one of the first patches of 3.12: their C code stops at 1,500 levels, whatever the limit."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + OBJECT_DEPTH)
    try:
        msgspec.json.decode(nested(1500), type=msgspec.Raw)
    except RecursionError:
        return sys.version_info[:2] == (3, 12)
    finally:
        sys.setrecursionlimit(limit)
    return False


@pytest.mark.parametrize("levels", [10, 1500, OBJECT_DEPTH - 100])
def test_an_object_is_read_however_deep_what_no_one_reads_of_it_is(levels: int) -> None:
    """An API server keeps a pod's managedFields to any depth: one pod would stop the lists that it is in."""
    if levels > 10 and is_early_312():
        pytest.skip("this patch of Python 3.12 reads no JSON deeper than 1,500 levels: docs/limits.md")
    fields = b'{"metadata":{"uid":"u","name":"p","managedFields":[{"fieldsV1":' + nested(levels) + b"}]}}"
    limit = sys.getrecursionlimit()
    assert (HEAD.read(fields).metadata.uid, POD.read(fields).metadata.name) == ("u", "p")
    (item,) = PAGE.read(b'{"items":[' + fields + b"]}").entries
    event = EVENT.read(b'{"type":"ADDED","object":' + fields + b"}")
    assert HEAD.read(item).metadata.uid == HEAD.read(event.object).metadata.uid
    assert sys.getrecursionlimit() == limit


def test_an_object_deeper_than_any_api_server_sends_is_refused() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(RemoteContractError, match="a Pod cannot be read: nested deeper than 10000 levels"):
        POD.read(b'{"x":' + nested(2_000_000) + b"}")
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("levels", range(MAX_DEPTH - 2, MAX_DEPTH + 3))
def test_the_depth_of_an_annotation_is_counted_without_what_stands_in_strings(levels: int) -> None:
    text = '{"a":"' + "[{" * 100 + '\\"[","x":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"
    decoder = BoundedJsonDecoder(dict[str, Any], "it", limit_bytes=1 << 20)
    if levels <= MAX_DEPTH:
        decoder.read(text)
    else:
        with pytest.raises(RemoteContractError, match=f"it cannot be read: nested deeper than {MAX_DEPTH} levels"):
            decoder.read(text)


def test_a_document_beyond_its_size_is_not_looked_at() -> None:
    text = "é" * (ANNOTATION_BYTES // 2 + 1)
    with pytest.raises(RemoteContractError, match=f"{ANNOTATION_BYTES + 2} bytes; at most {ANNOTATION_BYTES}"):
        decode_inventory(text)


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * 9)}]\n" for each in range(1, 12)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{each}: &a{each} {{<<: [{', '.join([f'*a{each - 1}'] * 9)}], k{each}: 1}}\n" for each in range(1, 12)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(LAUGHS, "more than 100000 values, aliases expanded", id="aliases of aliases"),
        pytest.param(MERGES, "more than 100000 values, aliases expanded", id="merges of merges"),
        pytest.param("a: &a [*a]", "contains it", id="an alias of itself"),
        pytest.param("[" * 5000, f"deeper than {MAX_YAML_DEPTH} levels", id="deep"),
        pytest.param("a: .inf", "line 1 is not finite", id="infinite"),
        pytest.param("a: 1e999", "line 1 is not finite", id="infinite by size"),
        pytest.param('"\\ud800"', "line 1 holds half of a surrogate pair", id="half a character"),
        pytest.param('a: 1\n"\\udfff": 2', "line 2 holds half of a surrogate pair", id="half a character of a key"),
        pytest.param("a: 9223372036854775808", "line 1 is beyond", id="beyond int64"),
        pytest.param("token: s3cret\ntoken: s3cret", r"found duplicate key \"token\" \(line 2\)$", id="a token twice"),
    ],
)
def test_yaml_is_bounded_as_if_its_aliases_were_written_out(text: str, why: str) -> None:
    with pytest.raises(RemoteContractError, match=why) as caught:
        load_yaml(text, "the file")
    assert "s3cret" not in str(caught.value)


def test_an_anchor_that_is_given_twice_is_the_later_one_and_nothing_of_it_is_shown() -> None:
    """A warning would quote the lines, which may hold a token; here warnings are errors."""
    assert load_yaml("a: &x s3cret\nb: &x c\nd: *x", "the file") == {"a": "s3cret", "b": "c", "d": "c"}


@pytest.mark.parametrize("text", [LAUGHS, MERGES, "[" * 2 * MAX_YAML_DEPTH], ids=["aliases", "merges", "deep"])
def test_a_manifest_is_bounded_likewise(text: str) -> None:
    with pytest.raises(DECODERS["manifest"].error, match="not valid YAML or JSON: it "):
        DECODERS["manifest"].read(text.encode())
