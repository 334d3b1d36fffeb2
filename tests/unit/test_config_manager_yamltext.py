"""Editing YAML and JSON in place: what is inserted, and that every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.config_manager.scheduler_config.yaml_text import YamlText, scalar_text
from gcushare.config_manager.scheduler_config.yaml_tree import Mapping, Scalar, Sequence
from gcushare.core.errors import ConfigError, Refused
from tests.timing import assert_no_square
from tests.unit.config_manager_host import load_yaml


def list_at(yaml: YamlText, *path: str | int) -> Sequence:
    node = yaml.at(*path)
    assert isinstance(node, Sequence)
    return node


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a:\n- x\nb: 1\n", "a:\n- x\n- new\nb: 1\n", id="list at its key's indentation"),
        pytest.param("a:\n    - x\n", "a:\n    - x\n    - new\n", id="indented list"),
        pytest.param("a:\n- x   # why\n# end\n", "a:\n- x   # why\n- new\n# end\n", id="comment on the last line"),
        pytest.param("a:\n- x", "a:\n- x\n- new", id="no final line end"),
        pytest.param("a:\r\n- x\r\n", "a:\r\n- x\r\n- new\r\n", id="CRLF"),
        pytest.param("a:\n- |\n  x\n  y\nb: 1\n", "a:\n- |\n  x\n  y\n- new\nb: 1\n", id="after a block scalar"),
        pytest.param("a:\n- k: v\n  n:\nb: 1\n", "a:\n- k: v\n  n:\n- new\nb: 1\n", id="after an empty value"),
        pytest.param("a: [x, y]\n", 'a: [x, y, "new"]\n', id="flow"),
        pytest.param("a: []\n", 'a: ["new"]\n', id="empty flow"),
        pytest.param('{"a": [\n\t"x"\n]}', '{"a": [\n\t"x",\n\t"new"\n]}', id="JSON with tabs"),
        pytest.param('{"a":["x"]}', '{"a":["x", "new"]}', id="compact JSON"),
    ],
)
def test_an_item_is_appended_in_the_lists_own_style(before: str, after: str) -> None:
    yaml = YamlText.parse(before, "file")
    assert yaml.appended(list_at(yaml, "a"), "new").text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a: 1\n", "a: 1\nk:\n- n: x\n", id="block"),
        pytest.param("- a: 1\n  b: 2\n", "- a: 1\n  b: 2\n  k:\n  - n: x\n", id="in a list item"),
        pytest.param("# c\n--- &n !!map\na: 1\n", "# c\n--- &n !!map\na: 1\nk:\n- n: x\n", id="anchor and tag"),
        pytest.param("{a: 1}", '{a: 1, "k": [{"n": "x"}]}', id="flow"),
        pytest.param('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "k": [{"n": "x"}]\n}\n', id="JSON"),
        pytest.param("k:\n", 'k: [{"n": "x"}]\n', id="no value"),
        pytest.param("k: null   # none\n", 'k: [{"n": "x"}]   # none\n', id="null"),
        pytest.param("k:\n- old\nb: 1\n", 'k: [{"n": "x"}]\nb: 1\n', id="another list"),
    ],
)
def test_a_key_is_set_where_it_stands_or_at_the_end(before: str, after: str) -> None:
    yaml = YamlText.parse(before, "file")
    mapping = yaml.at(0) if before.startswith("-") else yaml.root
    assert isinstance(mapping, Mapping)
    assert yaml.with_key(mapping, "k", [{"n": "x"}]).text == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: old # c\n", "a: --x=/y+z.yaml # c\n"),
        ("a: 'old'\n", "a: '--x=/y+z.yaml'\n"),
        ('a: "old"\n', 'a: "--x=/y+z.yaml"\n'),
        ("a: &n old\n", "a: &n --x=/y+z.yaml\n"),
        ('{"a":"old"}', '{"a":"--x=/y+z.yaml"}'),
    ],
)
def test_a_scalar_keeps_its_quotes_its_anchor_and_its_comment(before: str, after: str) -> None:
    yaml = YamlText.parse(before, "file")
    scalar = yaml.at("a")
    assert isinstance(scalar, Scalar)
    assert yaml.with_scalar(scalar, "--x=/y+z.yaml").text == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("x: &s [a]\na: *s\n", "is an alias", id="an alias"),
        pytest.param("a: &s [a]\nx: *s\n", "anchor 's' is used in 2 places", id="an anchor in use"),
        pytest.param("m: &s {a: [x]}\nn: *s\n", "anchor 's' is used in 2 places", id="below an anchor in use"),
    ],
)
def test_what_several_places_share_is_not_edited(text: str, message: str) -> None:
    yaml = YamlText.parse(text, "file")
    owner = yaml.at("m") if text.startswith("m") else yaml.root
    assert isinstance(owner, Mapping)
    with pytest.raises(Refused, match=message):
        yaml.with_key(owner, "a", ["new"])


def test_a_key_that_comes_in_through_a_merge_is_refused() -> None:
    mapping = YamlText.parse("m: &m {a: 1}\nn: {<<: *m}\n", "file").at("n")
    assert isinstance(mapping, Mapping)
    with pytest.raises(ConfigError, match="YAML merge"):
        mapping.get("a")


@pytest.mark.parametrize("text", ["yes", "", "-", "a:", "1.5", "- x", "x #y", "null", "{a}", "@x", "a'b", '"', "a\nb"])
def test_a_written_scalar_is_read_back_as_the_same_string(text: str) -> None:
    assert load_yaml(f"k: {scalar_text(text)}\n") == {"k": text}


# What YAML readers accept in a file; configurations hold nothing else.
texts = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cc", "Cs", "Zl"]), max_size=12
)
keys = st.from_regex(r"[aK][a-z/_-]{0,3}", fullmatch=True)
values = st.recursive(
    st.booleans() | st.integers(-5, 10**12) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=10)
@given(
    items=st.lists(values, min_size=1, max_size=4),
    indent=st.sampled_from([None, 1, 4, "\t"]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_appending_to_any_json_list_and_removing_again_restores_it(
    items: list[Any], indent: int | str | None, newline: str
) -> None:
    text = json.dumps({"a": items, "b": None}, indent=indent).replace("\n", newline)
    yaml = YamlText.parse(text, "file")
    grown = yaml.appended(list_at(yaml, "a"), {"n": "x"})
    assert json.loads(grown.text) == {"a": [*items, {"n": "x"}], "b": None}
    assert grown.without_item(list_at(grown, "a"), len(items)).text == text


@pytest.mark.parametrize("text", ["a: b\n\t# c\n", "\ta: b\n", "a:\n\t- x\n"])
def test_tabs_where_a_key_may_start_are_refused_as_kube_scheduler_refuses_them(text: str) -> None:
    with pytest.raises(ConfigError, match="not valid YAML"):
        YamlText.parse(text, "file")


def test_a_long_run_of_tabs_and_spaces_takes_no_more_time_than_its_length() -> None:
    def parse(count: int) -> None:
        with pytest.raises(ConfigError, match="not valid YAML"):
            YamlText.parse("a: b" + "\t " * count + "x", "file")

    assert_no_square(parse, 1000)
