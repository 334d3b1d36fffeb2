"""``gcushare cards`` as a process would run it, and an address that answers."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.runtime.entry import ProcessContext
from tests.protocol.inspect_rig import Ran, Tty

NOWHERE = Path("/nowhere")
"""A /proc without processes: whose they are is not known."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Runs the command: on a pipe, or on a terminal of so many columns."""

    environ: Mapping[str, str]
    proc: Path = NOWHERE

    async def call(self, *argv: str, columns: int | None = None, **environ: str) -> Ran:
        out, err = (Tty() if columns else io.StringIO()), io.StringIO()
        found = {**self.environ, **environ}
        if columns:
            found = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm", **found}
        process = ProcessContext(argv=argv, environ=found, stdout=out, stderr=err)
        code = await asyncio.to_thread(SUBCOMMANDS["cards"].run, process, proc=self.proc)
        return Ran(code, out.getvalue(), err.getvalue())

    async def ask(self, *argv: str) -> dict[str, Any]:
        """The document of ``-o json``."""
        ran = await self.call(*argv, "-o", "json")
        assert ran.code == 0, ran.err
        document: dict[str, Any] = json.loads(ran.out)
        return document
