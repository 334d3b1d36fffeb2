"""Command lines of ``kubectl inspect gcushare`` and ``gpushare``, and of the same commands as words of ``gcushare``.

A command of ``kubectl inspect``, if there is one, is the first word. ``gcushare`` takes any vendor's cards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gcushare.cli.kubectl.help_text import COMMANDS, Names, program_of
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import MISUSED
from gcushare.runtime.settings.old_flags import GLOG_FLAGS, OldFlag
from gcushare.runtime.start import load
from gcushare.vendors import VENDORS

NAMES = {vendor.kubectl_plugin: Names(vendor) for vendor in VENDORS}


_WORK = {
    "": "gcushare.cli.inspect.table_command:show_table",
    "explain": "gcushare.cli.explain.explanation_text:explain",
    "nodes-needed": "gcushare.cli.nodes_needed.nodes_needed:nodes_needed",
    "rightsize": "gcushare.cli.top.rightsize:rightsize",
    "top": "gcushare.cli.top.top:top",
}


def main(word: str, process: ProcessContext) -> int:
    """Run ``kubectl-inspect-WORD``; returns the exit code."""
    command = process.argv[0] if process.argv and process.argv[0] in COMMANDS else ""
    argv = tuple(process.argv[1:] if command else process.argv)
    return _run(NAMES[word], command, replace(process, argv=argv), GLOG_FLAGS)


def main_own(command: str, process: ProcessContext) -> int:
    """Run a command of ``kubectl inspect`` as a word of ``gcushare``, "" for the table; returns the exit code."""
    return _run(Names(VENDORS[0], is_own=True), command, process, None)


def _run(names: Names, command: str, process: ProcessContext, old_flags: Mapping[str, OldFlag] | None) -> int:
    # What the API server's client logs would tear the table; failures are reported as errors and warnings.
    logging.getLogger("gcushare").addHandler(logging.NullHandler())
    program: Any = program_of(names, command)
    hints: list[str] = []

    def run(settings: Any) -> int:
        act = load(*_WORK[command].split(":"))
        return load("gcushare.cli.kubectl.session", "run")(names, act, settings, process, hints)

    code = run_program(program, run, process=process, old_flags=old_flags)
    meant = next((each for each in process.argv if each in COMMANDS), "")
    if code == MISUSED and meant and not command:
        hints.append(f"a command is the first word: '{names.with_word(meant)} ...'")
    for hint in hints:
        process.stderr.write(f"hint: {hint}\n")
    return code


own_inspect, own_explain = partial(main_own, ""), partial(main_own, "explain")
own_top, own_rightsize = partial(main_own, "top"), partial(main_own, "rightsize")
own_nodes_needed = partial(main_own, "nodes-needed")
main_gcushare, main_gpushare = partial(main, "gcushare"), partial(main, "gpushare")
