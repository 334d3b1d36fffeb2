"""``gcushare cards`` as a process would run it, and an address that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gcushare.cli.subcommands import SUBCOMMANDS
from tests.protocol.commands import Ran, run_command

NOWHERE = Path("/nowhere")
"""A /proc without processes: whose they are is not known."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Runs the command: on a pipe, or on a terminal of so many columns."""

    environ: Mapping[str, str]
    proc: Path = NOWHERE

    async def call(self, *argv: str, columns: int | None = None, **environ: str) -> Ran:
        main = partial(SUBCOMMANDS["cards"].run, proc=self.proc)
        return await run_command(main, *argv, environ={**self.environ, **environ}, columns=columns)

    async def ask(self, *argv: str) -> dict[str, Any]:
        """The document of ``-o json``."""
        ran = await self.call(*argv, "-o", "json")
        assert ran.code == 0, ran.err
        document: dict[str, Any] = ran.document
        return document
