"""Every command's ``--help`` at 80 columns: nothing runs over, tables stay tables, commands can be copied."""

from __future__ import annotations

import importlib
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import EXIT_STATUS
from gcushare.runtime.settings.declare import Program, settings

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SCRIPTS: dict[str, str] = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
_COMMAND = re.compile(r"^  ([a-z][a-z-]*)  +\S", re.MULTILINE)


class Terminal(io.StringIO):
    """A terminal whose size is given by the environment."""

    def isatty(self) -> bool:
        return True


def help_of(*words: str) -> str:
    module, function = SCRIPTS[words[0]].split(":")
    main: Callable[[ProcessContext], int] = getattr(importlib.import_module(module), function)
    stdout = Terminal()
    process = ProcessContext((*words[1:], "--help"), {"COLUMNS": "80"}, stdout, io.StringIO())
    assert main(process) == 0
    return stdout.getvalue()


def _every_command() -> Iterator[tuple[str, ...]]:
    for name in sorted(SCRIPTS):
        yield (name,)
        _, heading, rest = help_of(name).partition("\nCommands:\n")
        for word in _COMMAND.findall(rest.split("\n\n", 1)[0]) if heading else ():
            yield (name, word)


EVERY = list(_every_command())


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_a_page_fits_80_columns(words: tuple[str, ...]) -> None:
    page = help_of(*words)
    assert page.startswith("Usage: ")
    assert [line for line in page.splitlines() if len(line) > 80] == []
    assert [sign for sign in page if not sign.isprintable() and sign != "\n"] == []
    assert "default: empty" not in page, "what holds without the flag is said"
    assert not re.search(r"\b\d+\.0s\b", page), "durations are shown as people write them"


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_page_has_each_exit_status_in_one_table(words: tuple[str, ...]) -> None:
    page = help_of(*words)
    table = page.partition("\nExit status:\n")[2].partition("\n\n")[0]
    codes = re.findall(r"(?m)^  (\S+)  +[A-Z]", table)
    assert codes == sorted(codes, key=lambda code: (len(code), code))
    assert {*map(str, EXIT_STATUS)} <= {*codes}
    assert not re.search(r"(?i)exit (status|code)", page.replace("\nExit status:\n", "")), "it stands in the table"


def test_own_codes_stand_in_the_table() -> None:
    assert "  4      The worst finding is an error" in help_of("gcushare", "doctor")
    assert "  3      Moving pods makes no room" in help_of("gcushare", "defragment")
    assert "  1      One of several plugins did not answer" in help_of("gcushare", "cards")


@settings
class NoSettings:
    """Nothing."""


def test_a_long_example_is_broken_as_a_shell_reads_it() -> None:
    line = "program --a-long-flag /a/long/path/to/a/file --another-long-flag another-value --third third-value"
    stdout = io.StringIO()
    program = Program("program", "Shows.", NoSettings, examples=((line, "does it"),))
    assert run_program(program, lambda _: 0, process=ProcessContext(("--help",), {"COLUMNS": "80"}, stdout)) == 0
    shown = stdout.getvalue().partition("Examples:\n")[2].partition("      does it")[0]
    assert "\\\n" in shown
    assert shlex.split(shown.replace("\\\n", " ")) == line.split()


PEOPLE = ("gcushare", "kubectl-inspect-gcushare", "kubectl-inspect-gpushare")

HEAVY = (
    "aiohttp",
    "cryptography",
    "google.protobuf",
    "grpc",
    "prometheus_client",
    "rich",
    "ruamel",
    "uvloop",
    "gcushare.core.ledger",
    "gcushare.kube.client",
    "gcushare.wire.objects",
)
"""What a command needs once it runs, and no one who asks for help should wait for."""

_LOADED_BY_HELP = """
import importlib, io, json, sys
from gcushare.runtime.entry import ProcessContext
found = {}
for script, words in json.loads(sys.argv[1]):
    module, function = script.split(":")
    process = ProcessContext((*words, "--help"), {}, io.StringIO(), io.StringIO())
    assert getattr(importlib.import_module(module), function)(process) == 0
    found[" ".join((script, *words))] = [each for each in json.loads(sys.argv[2]) if each in sys.modules]
print(json.dumps(found))
"""


def loaded_by_help(heavy: tuple[str, ...]) -> dict[str, list[str]]:
    """By command for people, which of these modules its help has loaded, in one fresh process one after the other."""
    people = [words for words in EVERY if words[0] in PEOPLE and words != ("gcushare", "demo")]
    asked = [(SCRIPTS[words[0]], words[1:]) for words in people]
    done = subprocess.run(
        (sys.executable, "-c", _LOADED_BY_HELP, json.dumps(asked), json.dumps(heavy)),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_help_of_commands_for_people_loads_nothing_that_only_their_work_needs() -> None:
    found = loaded_by_help(HEAVY)
    assert len(found) >= 14
    assert not {command: modules for command, modules in found.items() if modules}
