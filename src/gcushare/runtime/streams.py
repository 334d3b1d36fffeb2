"""The streams of a process whose disk is full, whose terminal is gone, or whose caller has closed them.

Output that cannot be written ends a command with one line and a code that says so. What goes to stderr is dropped if
stderr cannot be written: there is nowhere left to report it, and the command's work and its exit code still count.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from gcushare.core.errors import GcushareError


class OutputError(GcushareError):
    """What a command prints cannot be written, for another reason than a reader that has left."""


class _Output(io.FileIO):
    """Raises OutputError once; after that the rest goes nowhere, so that the interpreter's last flush is silent."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]  # the buffer that the interpreter passes on
        except (BrokenPipeError, BlockingIOError):
            raise
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            raise OutputError(f"the output cannot be written: {error.strerror or error}") from error


class _Messages(io.FileIO):
    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except (BrokenPipeError, BlockingIOError):
            raise
        except OSError:
            return len(data)  # type: ignore[arg-type]


def guard_streams() -> None:
    """Have this process's streams fail as above. One that is closed is empty, or takes what is written to nowhere."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, f"__{name}__") is None:
            # A file that is opened later must not become the output; the lowest free number is given out first.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    for name, raw, errors in (("stdout", _Output, "replace"), ("stderr", _Messages, "backslashreplace")):
        stream = getattr(sys, name)
        # A program that embeds this one, as tests do, may have replaced it.
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _rewritten(stream, raw(stream.fileno(), "w", closefd=False), errors))


def _rewritten(stream: io.TextIOWrapper, raw: io.FileIO, errors: str) -> TextIO:
    """The same stream over ``raw``. A character that its encoding lacks must not end a command.

    Unbuffered means by line here: without a buffer, the interpreter loses what a write leaves over.
    """
    is_by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=errors, line_buffering=is_by_line)
