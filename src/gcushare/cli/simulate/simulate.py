"""``gcushare simulate``: runs, answer, exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gcushare.cli.simulate.comparing import Comparison, compare, compare_needs
from gcushare.cli.simulate.live import read_live
from gcushare.cli.simulate.report import document, needs_document, render_needs, render_text
from gcushare.cli.simulate.simulate_settings import SimulateSettings
from gcushare.cli.simulate.workload import EmptyNode, read_nodes, read_pods
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.core.errors import ConfigError
from gcushare.core.packing.expected_fill import Demand
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE

_MOST_WARNINGS = 10
"""How many nodes and pods that cannot be read are named."""


def run(settings: SimulateSettings, process: ProcessContext) -> int:
    """Run the simulation, print what was found, and return the exit code."""
    nodes, pods = _read(settings, process)
    plan = Comparison(tuple(nodes), tuple(pods), settings.source.load, settings.policy)
    columns = (TextColumn("policies"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_shown = process.stderr.isatty() and process.environ.get("TERM", "") not in ("", "dumb")
    with Progress(*columns, console=Console(file=process.stderr), transient=True, disable=not is_shown) as bar:
        is_json, width = settings.output is TextOrJson.JSON, Screen(process).width
        if settings.cards_needed:
            needs = dict(bar.track(compare_needs(plan), total=len(plan.policies)))
            text = to_json(needs_document(plan, needs)) if is_json else render_needs(plan, needs, width)
        else:
            runs = dict(bar.track(compare(plan), total=len(plan.policies)))
            text = to_json(document(plan, runs)) if is_json else render_text(plan, runs, width)
    process.stdout.write(text)
    return DONE


def _read(settings: SimulateSettings, process: ProcessContext) -> tuple[list[EmptyNode], list[Demand]]:
    source = settings.source
    if source.from_cluster:
        problems: list[str] = []
        try:
            return asyncio.run(read_live(settings.kube, source.vendor, process.environ, problems))
        finally:
            _warn(Screen(process), problems)
    if source.nodes is None or source.pods is None:
        raise ConfigError("nodes and pods are both needed: name two CSV files")
    return read_nodes(source.nodes), read_pods(source.pods)


def _warn(screen: Screen, problems: Sequence[str]) -> None:
    for problem in problems[:_MOST_WARNINGS]:
        screen.say("warning", f"left out: {problem}")
    if len(problems) > _MOST_WARNINGS:
        screen.say("warning", f"left out: {len(problems) - _MOST_WARNINGS} more")
