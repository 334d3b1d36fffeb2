"""``gcushare doctor``: settings, examination, repair, exit code."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from gcushare.cli.doctor.checks.registry import examine
from gcushare.cli.doctor.facts import Facts
from gcushare.cli.doctor.findings import Finding, Fix, worst
from gcushare.cli.doctor.fix import Outcome, fixes_of, make
from gcushare.cli.doctor.gather import gather
from gcushare.cli.doctor.render import document, one_line, render_json, render_text
from gcushare.cli.doctor.settings import DOCTOR_PROGRAM, EXIT_OF, DoctorSettings, Output, limits, sources
from gcushare.cli.terminal.progress import Progress
from gcushare.core.errors import Refused
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import load_config
from gcushare.runtime.entry import Surroundings, run_program


def main(surroundings: Surroundings | None = None, *, stdin: TextIO | None = None) -> int:
    """Run ``gcushare doctor`` and return its exit code."""
    around = surroundings or Surroundings()
    answers = stdin or sys.stdin

    def run(settings: DoctorSettings) -> int:
        return asyncio.run(_Doctor(settings, around, answers).run())

    return run_program(DOCTOR_PROGRAM, run, surroundings=around)


@dataclass(frozen=True, slots=True)
class _Doctor:
    settings: DoctorSettings
    around: Surroundings
    stdin: TextIO

    async def run(self) -> int:
        kube = self.settings.kube
        config = load_config(sources(kube, self.around.environ))
        async with KubeClient(config, program="gcushare-doctor", limits=limits(kube)) as client:
            facts, findings = await self._examine(client)
            fixes = fixes_of(findings) if self.settings.fix else []
            if not (fixes and self.settings.yes):
                self._tell(facts, findings, ())
            if not fixes or not self._is_agreed(fixes):
                return EXIT_OF[worst(findings)]
            outcomes = await make(client, fixes)
            facts, findings = await self._examine(client)
        self._tell(facts, findings, outcomes)
        failed = [f"{each.fix}: {each.problem}" for each in outcomes if each.problem]
        if failed:
            raise Refused("; ".join(failed))
        return EXIT_OF[worst(findings)]

    async def _examine(self, client: KubeClient) -> tuple[Facts, list[Finding]]:
        terminal = self.around.environ.get("TERM", "")
        async with Progress(self.around.stderr, terminal=terminal) as progress:
            facts = await gather(client, self.settings.where.wanted(), SystemClock(), progress)
        return facts, examine(facts)

    def _is_agreed(self, fixes: Sequence[Fix]) -> bool:
        """Show what would be changed and ask; whoever cannot be asked has not agreed."""
        if self.settings.yes:
            return True
        listed = "".join(f"  {number}. {one_line(str(fix))}\n" for number, fix in enumerate(fixes, start=1))
        if not self.stdin.isatty():
            raise Refused(f"nobody can be asked here; with --yes these changes are made:\n{listed}".rstrip())
        self.around.stderr.write(f"These changes can be made:\n{listed}Make them? [y/N] ")
        self.around.stderr.flush()
        return self.stdin.readline().strip().lower() in ("y", "yes")

    def _tell(self, facts: Facts, findings: Sequence[Finding], outcomes: Sequence[Outcome]) -> None:
        stdout = self.around.stdout
        made = [each.fix for each in outcomes if not each.problem]
        if self.settings.output is Output.JSON:
            stdout.write(render_json(document(facts, findings, made)))
            return
        for fix in made:
            stdout.write(f"done: {one_line(str(fix))}\n")
        stdout.write(render_text(facts, findings, width=self._width(), color=self._has_color()))

    def _width(self) -> int | None:
        asked = self.around.environ.get("COLUMNS", "")
        if asked.isdecimal() and int(asked):
            return int(asked)
        return shutil.get_terminal_size().columns if self.around.stdout.isatty() else None

    def _has_color(self) -> bool:
        if self.settings.color is not None:
            return self.settings.color
        environ = self.around.environ
        return self.around.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
