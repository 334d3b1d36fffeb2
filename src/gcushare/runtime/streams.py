"""The streams of a process whose disk is full, whose terminal is gone, or whose caller has closed them.

Output that cannot be written ends a command with one line and a code that says so. What goes to stderr is dropped if
stderr cannot be written: there is nowhere left to report it, and the command's work and its exit code still count.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

from gcushare.core.errors import GcushareError


class OutputError(GcushareError):
    """What a command prints cannot be written."""


class ReaderGoneError(OutputError):
    """The reader of what a command prints (head, less) has left. The command ends silently, as others do by SIGPIPE."""


def is_reader_gone(error: BaseException) -> bool:
    """Whether an error is that the reader has left, also as the only kind of error in an exception group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_reader_gone, error.exceptions))
    return isinstance(error, ReaderGoneError)


class _Stream(io.FileIO):
    """What cannot be written to stderr is dropped. Of stdout it is an OutputError, once: the rest goes nowhere then,
    so that the interpreter's last flush is silent.
    """

    def write(self, data: Any) -> int:
        """Write what the interpreter passes on."""
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as error:
            if self.fileno() == 2:
                return len(data)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                raise ReaderGoneError("the reader of the output has left") from error
            raise OutputError(f"the output cannot be written: {error.strerror or error}") from error


def guard_streams() -> None:
    """Have this process's streams fail as above. One that is closed is empty, or takes what is written to nowhere."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, f"__{name}__") is None:
            # A file that is opened later must not become the output; the lowest free number is given out first.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    for name, errors in (("stdout", "replace"), ("stderr", "backslashreplace")):
        stream = getattr(sys, name)
        # A program that embeds this one, as tests do, may have replaced it.
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _rewritten(stream, errors))


def _rewritten(stream: io.TextIOWrapper, errors: str) -> TextIO:
    """The same stream, guarded. A character that its encoding lacks must not end a command.

    Unbuffered means by line here: without a buffer, the interpreter loses what a write leaves over.
    """
    raw = _Stream(stream.fileno(), "w", closefd=False)
    is_by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=errors, line_buffering=is_by_line)
