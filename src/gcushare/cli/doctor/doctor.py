"""``gcushare doctor`` at work: examine, print, ask, repair, examine again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from gcushare.cli.doctor.doctor_settings import EXIT_OF, DoctorSettings
from gcushare.cli.terminal.findings_text import document, render_text
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.diagnosis.checks.registry import examine
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, Fix, worst
from gcushare.cluster.diagnosis.gather_facts import gather
from gcushare.cluster.reader import Reader
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, Refused
from gcushare.core.wording import one_line
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import InvalidError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import ProcessContext


def run(settings: DoctorSettings, process: ProcessContext, *, stdin: TextIO | None = None) -> int:
    """Examine, and repair if asked to; returns the exit code. ``stdin`` defaults to the process's own.

    Raises:
        GcushareError: the API server does not answer, or a repair failed.
    """

    def open_api() -> KubeClient:
        return open_cluster(settings.kube, process.environ, program="gcushare-doctor")

    async def look() -> tuple[Facts, list[Finding]]:
        async with open_api() as client, Screen(process).progress() as progress:
            facts = await gather(Reader(client, progress), settings.where)
        return facts, examine(facts)

    async def repair() -> dict[Fix, str]:
        """Make the changes; returns why one was not made, empty if it was. One that fails stops none of the others."""
        async with open_api() as client:
            return {fix: await _make(client, fix) for fix in fixes}

    facts, findings = asyncio.run(look())
    fixes = list(dict.fromkeys(each.fix for each in findings if each.fix is not None)) if settings.fix else []
    if not (fixes and settings.yes):
        _show(settings, process, facts, findings, ())
    if not fixes or not (settings.yes or _is_agreed(fixes, stdin or sys.stdin, process)):
        return EXIT_OF[worst(findings)]
    failures = asyncio.run(repair())
    facts, findings = asyncio.run(look())
    _show(settings, process, facts, findings, [fix for fix, failure in failures.items() if not failure])
    failed = [f"{fix}: {failure}" for fix, failure in failures.items() if failure]
    if failed:
        raise Refused("; ".join(failed))
    return EXIT_OF[worst(findings)]


def _is_agreed(fixes: Sequence[Fix], stdin: TextIO, process: ProcessContext) -> bool:
    """Show what would be changed and ask.

    Raises:
        Refused: standard input is not a terminal.
    """
    listed = "".join(f"  {number}. {one_line(str(fix))}\n" for number, fix in enumerate(fixes, start=1))
    if not stdin.isatty():
        raise Refused(f"no one can be asked here; with --yes these changes are made:\n{listed}".rstrip())
    process.stderr.write(f"These changes can be made:\n{listed}Make them? [y/N] ")
    process.stderr.flush()
    return stdin.readline().strip().lower() in ("y", "yes")


def _show(
    settings: DoctorSettings, process: ProcessContext, facts: Facts, findings: Sequence[Finding], made: Sequence[Fix]
) -> None:
    if settings.output is TextOrJson.JSON:
        process.stdout.write(to_json(document(facts, findings, made)))
        return
    for fix in made:
        process.stdout.write(f"done: {one_line(str(fix))}\n")
    screen = Screen(process)
    process.stdout.write(render_text(facts, findings, width=screen.width, color=screen.has_color))


async def _make(client: KubeClient, fix: Fix) -> str:
    """Make a change; returns why it was not made, empty if it was."""
    try:
        subresource = "status" if fix.field == "capacity" else None
        await client.patch(NODES, fix.node, patch_of(fix), subresource=subresource)
    except (ConflictError, InvalidError, NotFoundError) as failure:
        return f"it has changed since it was examined, and was left alone: {failure}"
    except GcushareError as failure:
        return str(failure)
    return ""


def patch_of(fix: Fix) -> Patch:
    """Return a JSON patch that fails if the value has changed since it was read."""
    parts = ("status" if fix.field == "capacity" else "metadata", fix.field, fix.key)
    path = "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)
    change: dict[str, Any] = {"op": "remove", "path": path}
    if fix.value is not None:
        change = {"op": "replace", "path": path, "value": fix.value}
    return Patch(PatchKind.JSON, [{"op": "test", "path": path, "value": fix.seen}, change])
