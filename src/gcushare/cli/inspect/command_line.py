"""Command lines of ``kubectl inspect gcushare`` and ``gpushare``, and of their completion."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from gcushare.cli.completion.arguments import Grammar, spell_out, take_command
from gcushare.cli.completion.shell_scripts import completion_script
from gcushare.cli.inspect import commands
from gcushare.cli.inspect import help_text as manual
from gcushare.cli.inspect.commands import Session
from gcushare.cli.inspect.help_text import SETTINGS, Names
from gcushare.cli.inspect.hints import hint_for, near_names_hint
from gcushare.cli.inspect.options import CompletionSettings, ExplainSettings, TableSettings, TopSettings
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.screen import Screen
from gcushare.runtime.settings.declare import Program, list_specs
from gcushare.vendors import ALIYUN, ENFLAME

T = TypeVar("T", bound=TableSettings | ExplainSettings | TopSettings)

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
    from gcushare.cli.completion.complete import complete

    return complete(names, around)


def run_command(names: Names, surroundings: Surroundings) -> int:
    """Choose the command and return its exit code."""
    # What the API server's client logs would tear the table; failures are told as errors and warnings.
    logging.getLogger("gcushare").addHandler(logging.NullHandler())
    argv = spell_out(surroundings.argv)
    grammar = Grammar.of(spec for cls in SETTINGS.values() for spec in list_specs(cls))
    command, rest = take_command(grammar.read(argv), SETTINGS)
    around = replace(surroundings, argv=tuple(rest))
    match command:
        case "explain":
            return _run(names, manual.explain_program(names), commands.explain, around)
        case "top":
            # Imported where it is asked for, as the completer is: tables need not wait for a parser of metrics.
            from gcushare.cli.top.top import top

            return _run(names, manual.top_program(names), top, around)
        case "node":
            return _run(names, manual.node_program(names), commands.show_table, around)
        case "completion":
            return run_program(manual.completion_program(names), _print_script(names, around), surroundings=around)
        case _:
            return _run(names, manual.table_program(names), commands.show_table, around)


def _print_script(names: Names, around: Surroundings) -> Callable[[CompletionSettings], int]:
    def act(settings: CompletionSettings) -> int:
        around.stdout.write(completion_script(names, settings.shell))
        return DONE

    return act


def _run(names: Names, program: Program[T], act: Callable[[Session, T], Awaitable[int]], around: Surroundings) -> int:
    """Run a command; an error is followed by what to do about it."""

    async def work(settings: T) -> int:
        session = Session(names.vendor, Screen(around, settings.show.color), [])
        try:
            return await act(session, settings)
        except GcushareError as error:
            hint = await _hint(names, session, settings, error)
            if hint:
                error.add_note(hint)
            raise

    def start(settings: T) -> int:
        try:
            return asyncio.run(work(settings))
        except GcushareError as error:
            notes.extend(getattr(error, "__notes__", ()))
            raise

    notes: list[str] = []
    code = run_program(program, start, surroundings=around)
    for note in notes:
        around.stderr.write(f"hint: {note}\n")
    return code


async def _hint(
    names: Names, session: Session, settings: TableSettings | ExplainSettings | TopSettings, error: GcushareError
) -> str:
    """Say what to do; for a node that does not exist, which ones were perhaps meant."""
    if not isinstance(error, NotFoundError):
        return hint_for(error, session.servers[-1] if session.servers else "")
    if isinstance(settings, ExplainSettings):
        return "-n names the pod's namespace; 'kubectl get pods -A' lists every pod"
    if settings.node is None:
        return ""
    asked, near = settings.node, []
    # The names are a courtesy: where they cannot be read, the error itself is told without them.
    with contextlib.suppress(GcushareError):
        async with session.connect(settings.at) as api:
            nodes = await api.list_all(NODES)
            near = difflib.get_close_matches(asked, [node.metadata.name for node in nodes], n=3)
    words = difflib.get_close_matches(asked, manual.SUMMARIES, n=1)
    # A word that is further from what was typed than a node's name was hardly meant.
    if near and words and difflib.get_close_matches(asked, [near[0], *words], n=1) == near[:1]:
        words = []
    return near_names_hint(near, [f"{names.command} {word}" for word in words])
