"""The outermost frame of every program: settings in, exit code out, and no error without one line that says why."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, TypeVar

from gcushare.core.errors import ConfigError, GcushareError
from gcushare.runtime.exit_codes import DONE, INTERNAL_ERROR, SIGNALLED, exit_code_for
from gcushare.runtime.pipes import CLOSED_PIPE, is_closed_pipe, leave_closed_pipes
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.groups import LogSettings
from gcushare.runtime.settings.loading import Answered, load_settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process gets from outside; tests bring their own."""

    argv: Sequence[str] = field(default_factory=lambda: tuple(sys.argv[1:]))
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)


def run_program(
    program: Program[T],
    main: Callable[[T], int],
    *,
    log_settings: Callable[[T], LogSettings] | None = None,
    surroundings: Surroundings | None = None,
) -> int:
    """Load the settings, run ``main`` with them and return the exit code (see `exit_codes`).

    Args:
        program: what the command line is made from.
        main: the program itself; what it returns is the exit code.
        log_settings: finds the log's settings; without it no log is set up, as for commands that print an answer.
        surroundings: arguments, environment and streams, the process's own by default.

    Effects: an error that ends the program is reported once: on stderr as ``error: ...``, or in the log.
    """
    around = surroundings or Surroundings()

    def report(error: Exception) -> int:
        return _print_error(error, around.stderr)

    try:
        environ = {**around.environ, "COLUMNS": columns_of(around)}
        settings = load_settings(program, around.argv, environ, _read_text)
    except Answered as answer:
        text = answer.text
        return _run_guarded(
            lambda: _answer(text, around.stdout), around, lambda error: _print_error(error, around.stderr)
        )
    except ConfigError as error:
        return report(error)
    if log_settings is None:
        return _run_guarded(lambda: main(settings), around, report)
    from gcushare.runtime.logs import setup_logging  # here: what prints an answer, --help too, needs no log

    with setup_logging(log_settings(settings), program.name.partition(" ")[0], stderr=around.stderr):
        return _run_guarded(lambda: main(settings), around, _log)


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _run_guarded(main: Callable[[], int], around: Surroundings, report: Callable[[Exception], int]) -> int:
    try:
        code = main()
        around.stdout.flush()
        return code
    except KeyboardInterrupt:
        return SIGNALLED + signal.SIGINT
    except Exception as error:  # the program's root: every error ends here and is reported
        # A task group wraps it; a peer's broken pipe is an error like any other.
        if is_closed_pipe(error) and leave_closed_pipes(around.stdout, around.stderr):
            return CLOSED_PIPE
        return report(error)


def _answer(text: str, stdout: TextIO) -> int:
    stdout.write(text)
    return DONE


def columns_of(around: Surroundings) -> str:
    """The width for which to write: what the surroundings insist on, else the terminal's; empty on a pipe."""
    if around.environ.get("COLUMNS") or not around.stdout.isatty():
        return around.environ.get("COLUMNS", "")
    try:
        return str(os.get_terminal_size(around.stdout.fileno()).columns or "")
    except (OSError, ValueError):  # a stand-in for a terminal has neither descriptor nor size
        return ""


def _print_error(error: Exception, stderr: TextIO) -> int:
    from gcushare.runtime.log_lines import escape

    code = exit_code_for(error)
    if code == INTERNAL_ERROR:
        import traceback

        stderr.write("".join(traceback.format_exception(error)))
    for line in _lines_of(error):
        stderr.write(f"error: {escape(line)}\n")
    return code


def _log(error: Exception) -> int:
    import logging

    from gcushare.runtime.logs import fields

    log = logging.getLogger(__name__)
    code = exit_code_for(error)
    for line in _lines_of(error):
        log.error("program ends %s", fields(error=line, code=code), exc_info=code == INTERNAL_ERROR)
    return code


def _lines_of(error: Exception) -> Sequence[str]:
    if isinstance(error, ConfigError):
        return error.problems
    return [str(error) if isinstance(error, GcushareError) else f"{type(error).__name__}: {error}"]
