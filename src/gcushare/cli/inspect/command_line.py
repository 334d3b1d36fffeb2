"""Command lines of ``kubectl inspect gcushare`` and ``gpushare``, and of their completion."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gcushare.cli.completion.arguments import Grammar, spell_out, take_command
from gcushare.cli.completion.shell_scripts import completion_script
from gcushare.cli.inspect.help_text import (
    SETTINGS,
    Names,
    completion_program,
    explain_program,
    node_program,
    table_program,
    top_program,
)
from gcushare.cli.inspect.options import CompletionSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings.declare import Program, list_specs
from gcushare.runtime.start import load
from gcushare.vendors import ALIYUN, ENFLAME

T = TypeVar("T")

_TABLE = ("gcushare.cli.inspect.commands", "show_table")

GCUSHARE = Names(ENFLAME, "gcushare")
GPUSHARE = Names(ALIYUN, "gpushare")


def main_gcushare(surroundings: Surroundings | None = None) -> int:
    """Run ``kubectl-inspect-gcushare``; returns the exit code."""
    return run_command(GCUSHARE, surroundings or Surroundings())


def main_gpushare(surroundings: Surroundings | None = None) -> int:
    """Run ``kubectl-inspect-gpushare``; returns the exit code."""
    return run_command(GPUSHARE, surroundings or Surroundings())


def complete_gcushare(surroundings: Surroundings | None = None) -> int:
    """Run ``kubectl_complete-inspect-gcushare``; returns the exit code."""
    return run_completer(GCUSHARE, surroundings or Surroundings())


def complete_gpushare(surroundings: Surroundings | None = None) -> int:
    """Run ``kubectl_complete-inspect-gpushare``; returns the exit code."""
    return run_completer(GPUSHARE, surroundings or Surroundings())


def run_completer(names: Names, around: Surroundings) -> int:
    """Print what may stand next on a command line; returns the exit code."""
    return load("gcushare.cli.completion.complete", "complete")(names, around)


def run_command(names: Names, surroundings: Surroundings) -> int:
    """Choose the command and return its exit code."""
    # What the API server's client logs would tear the table; failures are reported as errors and warnings.
    logging.getLogger("gcushare").addHandler(logging.NullHandler())
    argv = spell_out(surroundings.argv)
    grammar = Grammar.of(spec for cls in SETTINGS.values() for spec in list_specs(cls))
    command, rest = take_command(grammar.read(argv), SETTINGS)
    around = replace(surroundings, argv=tuple(rest))
    match command:
        case "explain":
            return _run(names, explain_program(names), ("gcushare.cli.inspect.commands", "explain"), around)
        case "top":
            return _run(names, top_program(names), ("gcushare.cli.top.top", "top"), around)
        case "node":
            return _run(names, node_program(names), _TABLE, around)
        case "completion":
            return run_program(completion_program(names), _print_script(names, around), surroundings=around)
        case _:
            return _run(names, table_program(names), _TABLE, around)


def _print_script(names: Names, around: Surroundings) -> Callable[[CompletionSettings], int]:
    def act(settings: CompletionSettings) -> int:
        around.stdout.write(completion_script(names, settings.shell))
        return DONE

    return act


def _run(names: Names, program: Program[T], act: tuple[str, str], around: Surroundings) -> int:
    """Run a command, ``act`` of a module that is imported now; an error is followed by what to do about it."""
    hints: list[str] = []

    def run(settings: T) -> int:
        return load("gcushare.cli.inspect.session", "run")(names, load(*act), settings, around, hints)

    code = run_program(program, run, surroundings=around)
    for hint in hints:
        around.stderr.write(f"hint: {hint}\n")
    return code
