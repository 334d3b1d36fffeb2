"""``gcushare doctor`` at work: examine, print, ask, repair, examine again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from gcushare.cli.doctor.checks.registry import examine
from gcushare.cli.doctor.facts import Facts
from gcushare.cli.doctor.findings import Finding, Fix, worst
from gcushare.cli.doctor.fix import Outcome, fixes_of, make
from gcushare.cli.doctor.gather import gather
from gcushare.cli.doctor.render import document, one_line, render_json, render_text
from gcushare.cli.doctor.settings import EXIT_OF, DoctorSettings, Output
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.core.errors import Refused
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.runtime.entry import Surroundings


def run(settings: DoctorSettings, around: Surroundings, stdin: TextIO) -> int:
    """Examine, and repair where asked to; returns the exit code.

    Raises:
        GcushareError: the API server does not answer, or a repair failed.
    """
    return asyncio.run(_Doctor(settings, around, stdin).run())


@dataclass(frozen=True, slots=True)
class _Doctor:
    settings: DoctorSettings
    around: Surroundings
    stdin: TextIO

    async def run(self) -> int:
        async with open_cluster(self.settings.kube, self.around.environ, program="gcushare-doctor") as client:
            facts, findings = await self._examine(client)
            fixes = fixes_of(findings) if self.settings.fix else []
            if not (fixes and self.settings.yes):
                self._print(facts, findings, ())
            if not fixes or not self._is_agreed(fixes):
                return EXIT_OF[worst(findings)]
            outcomes = await make(client, fixes)
            facts, findings = await self._examine(client)
        self._print(facts, findings, outcomes)
        failed = [f"{each.fix}: {each.problem}" for each in outcomes if each.problem]
        if failed:
            raise Refused("; ".join(failed))
        return EXIT_OF[worst(findings)]

    async def _examine(self, client: KubeClient) -> tuple[Facts, list[Finding]]:
        async with Screen(self.around).progress() as progress:
            facts = await gather(client, self.settings.where, SystemClock(), progress)
        return facts, examine(facts)

    def _is_agreed(self, fixes: Sequence[Fix]) -> bool:
        """Show what would be changed and ask; whoever cannot be asked has not agreed."""
        if self.settings.yes:
            return True
        listed = "".join(f"  {number}. {one_line(str(fix))}\n" for number, fix in enumerate(fixes, start=1))
        if not self.stdin.isatty():
            raise Refused(f"no one can be asked here; with --yes these changes are made:\n{listed}".rstrip())
        self.around.stderr.write(f"These changes can be made:\n{listed}Make them? [y/N] ")
        self.around.stderr.flush()
        return self.stdin.readline().strip().lower() in ("y", "yes")

    def _print(self, facts: Facts, findings: Sequence[Finding], outcomes: Sequence[Outcome]) -> None:
        stdout = self.around.stdout
        made = [each.fix for each in outcomes if not each.problem]
        if self.settings.output is Output.JSON:
            stdout.write(render_json(document(facts, findings, made)))
            return
        for fix in made:
            stdout.write(f"done: {one_line(str(fix))}\n")
        screen = Screen(self.around, self.settings.color)
        stdout.write(render_text(facts, findings, width=screen.text_width, color=screen.has_color))
