"""Starts every command, so that Ctrl-C and a closed pipe end it without a stack trace, even during its imports.

This module imports nothing at the top level, not even from the standard library, because an interrupt during such an
import would print a stack trace.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Callable

    from gcushare.runtime.entry import ProcessContext

INTERRUPTED = 130
"""128 plus the number of SIGINT, as in shells."""


def start(module: str, function: str, process: ProcessContext | None = None) -> int:
    """Load a program and run it; returns the exit code.

    Args:
        module: the program's module, as a name, because its import may be interrupted.
        function: takes the process context and returns the exit code.
        process: None means this process's own arguments and streams.
    """
    import sys  # the interpreter has loaded it already

    if sys.platform == "win32":
        sys.stderr.write("error: this program runs on Linux and macOS; on Windows start it in WSL\n")
        return 1
    if process is None:
        load("gcushare.runtime.streams", "guard_streams")()
    try:
        code = load(module, function)(process or load("gcushare.runtime.entry", "ProcessContext")())
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        from gcushare.runtime.exit_codes import CLOSED_PIPE, FAILED
        from gcushare.runtime.streams import OutputError, is_reader_gone

        if is_reader_gone(error):
            return CLOSED_PIPE
        if not isinstance(error, OutputError):
            raise
        sys.stderr.write(f"error: {error}\n")
        return FAILED
    return code


def entry_point(module: str, function: str) -> Callable[..., int]:
    """Return the function by which a command is called: it starts the program, and takes and returns what `start` does.

    ``process`` is its only argument.
    """
    return lambda process=None: start(module, function, process)


def load(module: str, function: str) -> Callable[..., int]:
    """Import a module of a program and return its function, which returns the exit code.

    Effects: Ctrl-C ends the process at once meanwhile, because a KeyboardInterrupt during an import may be swallowed or
    leave a module half initialised. There is nothing to clean up yet.
    """
    import importlib
    import os
    import signal
    import threading

    def leave(_number: int, _frame: object) -> None:
        os._exit(INTERRUPTED)

    # The signal may be ignored (nohup), and only the main thread may handle it.
    is_main_thread = threading.current_thread() is threading.main_thread()
    is_ours = is_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, leave)
    try:
        found: Callable[..., int] = getattr(importlib.import_module(module), function)
        return found
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
