"""The local log file: bounded, rotated, and only in a directory that no user but the program's and root can write."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from gcushare.core.wording import counted
from gcushare.runtime.safe_directory import SafeDirectory, open_directory


def rotate(directory: SafeDirectory, name: str, count: int) -> None:
    """Rename a log to ``name.1``, the previous one to ``name.2``, and so on up to ``count``. The last is replaced."""
    names = [name, *(f"{name}.{number}" for number in range(1, count + 1))]
    for older, newer in reversed(list(zip(names[1:], names, strict=False))):
        if directory.status(newer) is not None:
            directory.rename(newer, directory, older, is_lasting=False)


class LocalLogFile(logging.Handler):
    """A log file that reports a problem (a full disk, a missing or unsafe directory) once, not once per line.

    Its directory is opened and checked at the start, at each rotation, and with every line while the file cannot be
    written. So logging resumes by itself once the cause is gone.
    """

    def __init__(self, file: Path, max_bytes: int, count: int, stderr: TextIO) -> None:
        super().__init__()
        self.file = file
        self._max_bytes = max_bytes
        self._count = count
        self._stderr = stderr
        self._descriptor: int | None = None
        self._size = 0
        self._lines_lost = 0
        self._is_reported = False

    def open(self) -> None:
        """Open the file, and create its directory if it does not exist.

        Raises:
            UnsafePathError: other users could redirect the file.
            OSError: the file cannot be opened.
        """
        # The caller reports these errors, so lost lines need no second warning.
        self._is_reported = True
        with open_directory(self.file.parent, make=True) as directory:
            self._open_in(directory)
        self._is_reported = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. Rotates first if it would exceed the size limit."""
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "replace")
            descriptor = self._descriptor
            is_full = descriptor is not None and self._size > 0 and self._size + len(line) > self._max_bytes
            if is_full or descriptor is None:
                self._drop()
                with open_directory(self.file.parent) as directory:
                    if is_full:
                        rotate(directory, self.file.name, self._count)
                    descriptor = self._open_in(directory)
            while line:
                written = os.write(descriptor, line)
                self._size += written
                line = line[written:]
        except Exception:
            # As in all handlers of logging, a line that cannot be written must not end the program.
            self.handleError(record)
            return
        if self._lines_lost:
            self._warn(f"is written again, {counted(self._lines_lost, 'line', 'are')} missing in it")
            self._lines_lost, self._is_reported = 0, False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Count a lost line, and report the first one."""
        self._drop()
        self._lines_lost += 1
        if not self._is_reported:
            self._is_reported = True
            self._warn(f"cannot be written: {sys.exc_info()[1]}")

    def close(self) -> None:
        """Close the file. Repeatable."""
        self._drop()
        super().close()

    def _open_in(self, directory: SafeDirectory) -> int:
        if directory.is_file_of_another(self.file.name):
            # The log of a previous program, which ran as another user.
            rotate(directory, self.file.name, self._count)
        descriptor = directory.open_to_append(self.file.name)
        self._descriptor, self._size = descriptor, os.fstat(descriptor).st_size
        return descriptor

    def _drop(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def _warn(self, what: str) -> None:
        self._stderr.write(f"warning: local log file {str(self.file)!r} {what}\n")
