"""Settings: one name in two places, one precedence, every problem at once, and the values as they are written."""

from __future__ import annotations

import enum
import math
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare._version import __version__
from gcushare.core.errors import ConfigError
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, list_specs, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.runtime.settings.loading import Answered, load_settings
from gcushare.runtime.settings.log import LogLevel, LogSettings
from gcushare.runtime.settings.parsers import Parser
from gcushare.runtime.settings.serving import ServeSettings


class Policy(enum.Enum):
    BINPACK = "binpack"
    SPREAD = "spread"


@settings
class PlacingSettings:
    """Placing."""

    policy: Policy = setting(parsers.choice(Policy), default=Policy.BINPACK, help="Which card is taken.")
    node: str = setting(parsers.text("NODE"), help="The node to serve.")
    elect: bool = setting(parsers.boolean(), default=True, help="Elect a leader.")
    peers: tuple[str, ...] = setting(
        parsers.comma_list(parsers.text("HOST:PORT")), default=(), help="The other replicas."
    )
    token: str | None = setting(
        parsers.optional(parsers.text(), "no token"), default=None, help="What to show the peers."
    )


@settings
class ExampleSettings:
    """Example."""

    question: str = setting(parsers.text("QUESTION"), default="all", argument=True, help="What to show.")
    placing: PlacingSettings = group(PlacingSettings)
    log: LogSettings = group(LogSettings)
    serve: ServeSettings = group(ServeSettings, listen_port=32766)


PROGRAM = Program(
    name="gcushare-example",
    summary="Shows how settings are read.",
    settings=ExampleSettings,
    examples=(("gcushare-example --node n1 pods", "Show the pods of one node."),),
    notes="It writes nothing.",
)


def load(*argv: str, environ: Mapping[str, str] | None = None) -> ExampleSettings:
    return load_settings(PROGRAM, argv, environ or {})


def problems_of(*argv: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(*argv, environ=environ)
    return caught.value.problems


def answer_to(*argv: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(Answered) as caught:
        load(*argv, environ=environ)
    return caught.value.text


@pytest.mark.parametrize(
    ("argv", "environ", "expected"),
    [
        pytest.param(("--policy", "spread"), {"GCUSHARE_POLICY": "binpack"}, "spread", id="flag"),
        pytest.param((), {"GCUSHARE_POLICY": "spread"}, "spread", id="environment"),
        pytest.param((), {}, "binpack", id="default"),
    ],
)
def test_a_flag_beats_the_environment_which_beats_the_default(
    argv: tuple[str, ...], environ: dict[str, str], expected: str
) -> None:
    assert load(*argv, "--node=n", environ=environ).placing.policy is Policy(expected)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        pytest.param(("--elect",), True, id="flag"),
        pytest.param(("--no-elect",), False, id="negated flag"),
        pytest.param(("--elect=false",), False, id="flag with a value, as in Go programs"),
        pytest.param(("--no-elect", "--elect=true"), True, id="the last one wins"),
    ],
)
def test_a_switch_can_be_given_in_each_usual_form(argv: tuple[str, ...], expected: bool) -> None:
    assert load("--node", "n1", *argv).placing.elect is expected


@pytest.mark.parametrize("word", ["--no-elect=false", "--no-elect=", "--help=x"])
def test_a_value_if_none_belongs_is_refused(word: str) -> None:
    (problem,) = problems_of("--node", "n1", word)
    name, _, value = word.partition("=")
    assert problem.startswith(f"Option {name!r} takes no value, not {value!r}.")


def test_every_problem_of_every_source_is_reported_at_once() -> None:
    problems = problems_of("--listen-port=99999", environ={"GCUSHARE_LOG_LEVEL": "inof", "GCUSHARE_POLICY": "random"})

    assert [problem.split(";")[0] for problem in problems] == [
        "env GCUSHARE_POLICY: 'random' is not one of the accepted words",
        "--node is required: give it as --node or env GCUSHARE_NODE",
        "env GCUSHARE_LOG_LEVEL: 'inof' is not one of the accepted words",
        "flag --listen-port: '99999' is too large",
    ]
    assert problems[2].endswith("accepted: debug or info or warning or error; did you mean 'info'?")


def test_settings_that_do_not_fit_each_other_are_a_problem_each() -> None:
    problems = problems_of("--node=n", "--tls-cert-file=/c")

    assert len(problems) == 1
    assert "'/c'" in problems[0]
    assert "'/ca'" in problems_of("--node=n", "--tls-client-ca-file=/ca")[0]


def test_an_unknown_flag_names_the_nearest_one() -> None:
    (problem,) = problems_of("--log-levle=debug")

    assert "No such option '--log-levle'." in problem
    assert "'--log-level'" in problem
    assert "--help" in problem


def test_empty_text_turns_an_optional_setting_off_and_is_refused_elsewhere() -> None:
    assert load("--node=n", "--log-dir=").log.log_dir is None
    (problem,) = problems_of("--node=")
    assert problem.startswith("flag --node: '' is empty")


def test_a_field_with_a_mere_default_is_a_constant_that_no_source_sets() -> None:
    @settings
    class Bounded:
        """Bounded."""

        readers: int = 64
        port: int = setting(parsers.integer(1, 9), default=1, help="A port.")

    program = Program("p", "s", Bounded)
    assert load_settings(program, ("--port=2",), {"GCUSHARE_READERS": "5"}) == Bounded(readers=64, port=2)
    with pytest.raises(ConfigError, match="No such option '--readers'"):
        load_settings(program, ("--readers=5",), {})
    assert [spec.name for spec in list_specs(Bounded)] == ["port"]


def test_print_config_shows_every_setting_with_its_source() -> None:
    text = answer_to("--node=n1", "--print-config", environ={"GCUSHARE_LOG_FORMAT": "json"})

    rows = dict(line.lstrip("# -").split("  # ") for line in text.splitlines()[1:])
    sources = {name.strip(): source for name, source in rows.items()}
    assert sources["node=n1"] == "flag --node"
    assert sources["log-format=json"] == "env GCUSHARE_LOG_FORMAT"
    assert sources["listen-port=32766"] == "default"
    assert len(rows) == len(list_specs(ExampleSettings)) - 1


@pytest.mark.parametrize("node", ["n1", "null", "a: b #c", "$HOME", "a b", "节点", "'", '"', "-", "--x", "True", "\\"])
def test_what_print_config_prints_means_the_same_when_given_back(node: str) -> None:
    argv = (f"--node={node}", "--peers=[::1]:5,h:6", "--log-dir=", "--log-level=debug")

    printed = answer_to(*argv, "--print-config")

    assert load(*shlex.split(printed, comments=True)) == load(*argv)


def test_help_names_every_setting_its_variable_default_and_accepted_values() -> None:
    page = answer_to("--help", environ={"COLUMNS": "120"})

    for spec in list_specs(ExampleSettings):
        assert spec.flag in page
        assert spec.is_argument or spec.env in page
    joined = " ".join(page.split())
    assert "accepted: a whole number from 0 to 65535; default: 32766; env: GCUSHARE_LISTEN_PORT" in joined
    assert "gcushare-example --node n1 pods" in page
    assert "It writes nothing." in page
    assert all(len(line) <= 120 for line in page.splitlines())


def test_help_and_version_answer_even_when_settings_are_wrong() -> None:
    assert answer_to("--version", "--listen-port=x") == f"gcushare-example {__version__}\n"
    assert answer_to("-h", environ={"GCUSHARE_LOG_LEVEL": "x"}).startswith(
        "Usage: gcushare-example [OPTIONS] [QUESTION]"
    )


def test_an_argument_is_read_from_its_position_only() -> None:
    assert load("--node=n", "pods", environ={"GCUSHARE_QUESTION": "x"}).question == "pods"
    (problem,) = problems_of("--node=n", "pods", "nodes")
    assert "nodes" in problem


def test_the_shared_groups_hold_no_name_that_kubernetes_sets_for_services() -> None:
    names = {spec.env for cls in (LogSettings, KubeSettings, ServeSettings) for spec in list_specs(cls)}

    assert not names & {"GCUSHARE_PORT", "GCUSHARE_SERVICE_HOST", "GCUSHARE_SERVICE_PORT"}
    assert "KUBECONFIG" in names


@pytest.mark.parametrize(
    ("parser", "text", "expected"),
    [
        (parsers.integer(-5, 5), "-5", -5),
        (parsers.integer(0, 5), "+5", 5),
        (parsers.boolean(), "True", True),
        (parsers.boolean(), "off", False),
        (parsers.choice(LogLevel), "Debug", LogLevel.DEBUG),
        (parsers.one_of("GiB", "0.1"), "0.1", "0.1"),
        *((parsers.duration_s(0, 9e9), *read) for read in (("1m30s", 90.0), ("1.5h", 5400.0), ("2", 2.0))),
        *((parsers.size_bytes(0, 1 << 40), *read) for read in (("8Mi", 8 << 20), ("1.5k", 1500), ("17", 17))),
        (parsers.number(0, 10), "2.5", 2.5),
        (parsers.comma_list(parsers.integer(0, 9)), "1, 2,3", (1, 2, 3)),
        (parsers.comma_list(parsers.integer(0, 9)), "", ()),
        (parsers.optional(parsers.integer(0, 9), "none"), "", None),
    ],
)
def test_a_value_is_read_from_its_usual_spellings(parser: Parser[Any], text: str, expected: object) -> None:
    assert parser.parse(text) == expected


@pytest.mark.parametrize(
    ("parser", "text", "reason"),
    [
        (parsers.integer(0, 5), "6", "too large"),
        (parsers.integer(0, 5), "-1", "too small"),
        *((parsers.integer(0, 5), text, "not a whole number") for text in ("1.0", "1_0", "9" * 5000, "٣")),
        (parsers.boolean(), "maybe", "neither true nor false"),
        (parsers.one_of("GiB"), "gib", "not one of the accepted words"),
        (parsers.duration_s(1, 60), "500ms", "too small"),
        (parsers.duration_s(1, 60), "2h", "too large"),
        *((parsers.duration_s(1, 60), text, "not a duration") for text in ("5 s", "nan", "")),
        (parsers.size_bytes(0, 10), "11", "too large"),
        (parsers.size_bytes(0, 10), "0.5", "not a whole number of bytes"),
        (parsers.size_bytes(0, 10), "5Qi", "not a size"),
        (parsers.number(0, 1), "inf", "not a finite number"),
        (parsers.number(0, 1), "1e999", "too large"),
        (parsers.comma_list(parsers.integer(0, 9)), "1,,2", "not a whole number"),
        (parsers.text(), "  ", "empty"),
        (parsers.path(), "a\0b", "not a path"),
    ],
)
def test_anything_else_is_refused_with_the_reason(parser: Parser[Any], text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        parser.parse(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_shown_reads_as_the_same_duration(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert math.isclose(parsers.duration_s(0, 1e9).parse(parsers.show_duration(seconds)), seconds)


@given(st.integers(min_value=0, max_value=1 << 45))
def test_a_size_shown_reads_as_the_same_size(count: int) -> None:
    assert parsers.size_bytes(0, 1 << 45).parse(parsers.show_bytes(count)) == count


@given(st.text(max_size=30))
def test_no_text_makes_a_parser_fail_in_another_way(text: str) -> None:
    for parser in (parsers.integer(0, 9), parsers.duration_s(0, 9), parsers.size_bytes(0, 9)):
        with suppress(ValueError):
            assert 0 <= parser.parse(text) <= 9
