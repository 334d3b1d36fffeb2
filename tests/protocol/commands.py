"""Commands as their console scripts would run them."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gcushare.runtime.entry import ProcessContext


class Ran(NamedTuple):
    """What a command did and printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def document(self) -> Any:
        """What it printed for programs."""
        return json.loads(self.out)


async def run_program(*words: str, environ: Mapping[str, str] | None = None) -> Ran:
    """Run a program of its own to its end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, env=environ, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(60):
        out, errors = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), errors.decode())


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


async def run_command(
    main: Callable[[ProcessContext], int], *argv: str, environ: Mapping[str, str], columns: int | None = None
) -> Ran:
    """Run a command on a pipe, or on a terminal of so many columns."""
    out, err = (Tty() if columns else io.StringIO()), io.StringIO()
    if columns:
        environ = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm", **environ}
    code = await asyncio.to_thread(main, ProcessContext(argv=argv, environ=environ, stdout=out, stderr=err))
    return Ran(code, out.getvalue(), err.getvalue())
