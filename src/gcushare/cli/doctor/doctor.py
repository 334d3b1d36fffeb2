"""``gcushare doctor`` at work: examine and print."""

from __future__ import annotations

import asyncio

from gcushare.cli.doctor.doctor_settings import EXIT_OF, DoctorSettings
from gcushare.cli.terminal.findings_text import document, render_text
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.diagnosis.checks.registry import examine
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.gather_facts import gather
from gcushare.cluster.reader import Reader
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE


def run(settings: DoctorSettings, process: ProcessContext) -> int:
    """Examine, and return the exit code.

    Raises:
        GcushareError: the API server does not answer.
    """
    screen = Screen(process)

    async def look() -> Facts:
        client = open_cluster(settings.kube, process.environ, program="gcushare-doctor")
        async with client, screen.progress() as progress:
            return await gather(Reader(client, progress), settings.where)

    facts = asyncio.run(look())
    findings = examine(facts)
    if settings.output is TextOrJson.JSON:
        screen.print_text(to_json(document(facts, findings)))
    else:
        screen.print_text(render_text(facts, findings, width=screen.width, color=screen.has_color))
    return EXIT_OF[findings[0].severity] if findings else DONE
