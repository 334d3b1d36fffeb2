"""Command lines of ``kubectl inspect gcushare`` and ``gpushare``: a command, if there is one, is the first word."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Any

from gcushare.cli.kubectl.flags import CompletionSettings
from gcushare.cli.kubectl.help_text import COMMANDS, Names, program_of
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.old_flags import GLOG_FLAGS, without_notes
from gcushare.runtime.start import load
from gcushare.vendors import VENDORS

NAMES = {vendor.kubectl_plugin: Names(vendor) for vendor in VENDORS}

LOG_FLAGS = without_notes(GLOG_FLAGS)
"""The flags that Go's log package adds to upstream's command."""

_WORK = {
    "": "gcushare.cli.inspect.table_command:show_table",
    "explain": "gcushare.cli.explain.explanation_text:explain",
    "nodes-needed": "gcushare.cli.simulate.pending:nodes_needed",
    "top": "gcushare.cli.top.top:top",
}


def main(word: str, process: ProcessContext | None = None) -> int:
    """Run ``kubectl-inspect-WORD``; returns the exit code."""
    process = process or ProcessContext()
    names = NAMES[word]
    # What the API server's client logs would tear the table; failures are reported as errors and warnings.
    logging.getLogger("gcushare").addHandler(logging.NullHandler())
    command = process.argv[0] if process.argv and process.argv[0] in COMMANDS else ""
    program: Any = program_of(names, command)
    hints: list[str] = []

    def run(settings: Any) -> int:
        if isinstance(settings, CompletionSettings):
            script = load("gcushare.cli.completion.shell_scripts", "completion_script")
            process.stdout.write(str(script(names, settings.shell)))
            return DONE
        act = load(*_WORK[command].split(":"))
        return load("gcushare.cli.kubectl.session", "run")(names, act, settings, process, hints)

    argv = process.argv[1:] if command else process.argv
    code = run_program(program, run, process=replace(process, argv=tuple(argv)), old_flags=LOG_FLAGS)
    meant = next((each for each in process.argv if each in COMMANDS), "")
    if code == MISUSED and meant and not command:
        hints.append(f"a command is the first word: '{names.command} {meant} ...'")
    for hint in hints:
        process.stderr.write(f"hint: {hint}\n")
    return code


def complete(word: str, process: ProcessContext | None = None) -> int:
    """Run ``kubectl_complete-inspect-WORD``: print what may stand next on a command line; returns the exit code."""
    return load("gcushare.cli.completion.complete", "complete")(NAMES[word], process or ProcessContext())


main_gcushare, main_gpushare = partial(main, "gcushare"), partial(main, "gpushare")
complete_gcushare, complete_gpushare = partial(complete, "gcushare"), partial(complete, "gpushare")
