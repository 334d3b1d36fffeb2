"""Runs every program: reads its settings, reports each error in one line, and returns the exit code.

Output to a closed pipe (of head or less) ends a command silently, with the exit code that shells expect.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO, TypeVar

from gcushare.core.errors import ConfigError, GcushareError
from gcushare.runtime.exit_codes import CLOSED_PIPE, DONE, INTERNAL_ERROR, SIGNALLED, exit_code_for
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.loading import Answered, load_settings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.old_flags import OldFlag
from gcushare.runtime.streams import is_reader_gone

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """The arguments, environment and streams of a process. Tests pass their own."""

    argv: Sequence[str] = field(default_factory=lambda: tuple(sys.argv[1:]))
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)


def run_program(
    program: Program[T],
    main: Callable[[T], int],
    *,
    log_settings: Callable[[T], LogSettings] | None = None,
    process: ProcessContext | None = None,
    old_flags: Mapping[str, OldFlag] | None = None,
) -> int:
    """Load the settings, run ``main`` with them and return the exit code (see `exit_codes`).

    Without ``log_settings`` no log is set up, for commands that print an answer. ``old_flags`` are flags of the
    programs that this one replaces; a note on stderr explains how each is handled.

    Effects: an error that ends the program is reported once: on stderr as ``error: ...``, or in the log.
    """
    process = process or ProcessContext()

    def report(error: Exception) -> int:
        from gcushare.core.log_fields import escape

        code = exit_code_for(error)
        if code == INTERNAL_ERROR:
            import traceback

            process.stderr.write("".join(traceback.format_exception(error)))
        for line in _lines_of(error):
            process.stderr.write(f"error: {escape(line)}\n")
        if isinstance(error, GcushareError) and error.hint:
            process.stderr.write(f"hint: {error.hint}\n")
        return code

    try:
        environ = {**process.environ, "COLUMNS": columns_of(process)}
        settings = load_settings(
            program, process.argv, environ, old_flags, lambda note: process.stderr.write(f"note: {note}\n")
        )
    except Answered as answer:
        text = answer.text
        return _run_guarded(lambda: process.stdout.write(text) and DONE, process, report)
    except ConfigError as error:
        return report(error)
    if log_settings is None:
        return _run_guarded(lambda: main(settings), process, report)
    from gcushare.runtime.logs import setup_logging  # here, because commands that print an answer need no log

    with setup_logging(log_settings(settings), program.name.partition(" ")[0], stderr=process.stderr):
        return _run_guarded(lambda: main(settings), process, _log)


def _run_guarded(main: Callable[[], int], process: ProcessContext, report: Callable[[Exception], int]) -> int:
    try:
        code = main()
        process.stdout.flush()
        return code
    except KeyboardInterrupt:
        return SIGNALLED + signal.SIGINT
    except Exception as error:  # the program's root: every error ends here and is reported
        if is_reader_gone(error):
            return CLOSED_PIPE
        if isinstance(error, ModuleNotFoundError) and not (error.name or "gcushare").startswith("gcushare"):
            missing = (
                f"the library {error.name} is not installed; the programs of a cluster need more than the commands"
            )
            return report(ConfigError(f"{missing}: pip install 'gcushare[server]'"))
        return report(error)


def columns_of(process: ProcessContext) -> str:
    """The width of the output: COLUMNS, else the terminal's width; empty for a pipe."""
    if process.environ.get("COLUMNS") or not process.stdout.isatty():
        return process.environ.get("COLUMNS", "")
    try:
        return str(os.get_terminal_size(process.stdout.fileno()).columns or "")
    except (OSError, ValueError):  # a fake terminal has neither descriptor nor size
        return ""


def _log(error: Exception) -> int:
    import logging

    from gcushare.core.log_fields import fields

    logger = logging.getLogger(__name__)
    code = exit_code_for(error)
    for line in _lines_of(error):
        logger.error("program ends %s", fields(error=line, code=code), exc_info=code == INTERNAL_ERROR)
    return code


def _lines_of(error: Exception) -> Sequence[str]:
    if isinstance(error, ConfigError):
        return error.problems
    return [str(error) if isinstance(error, GcushareError) else f"{type(error).__name__}: {error}"]
