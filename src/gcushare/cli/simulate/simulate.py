"""``gcushare simulate``: runs, answer, exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gcushare.cli.simulate.charts import draw, render_svg, write_png
from gcushare.cli.simulate.churn import Churn
from gcushare.cli.simulate.comparing import Comparison, Plan, compare, compare_churn, compare_needs
from gcushare.cli.simulate.live import read_live
from gcushare.cli.simulate.pending import read_pending
from gcushare.cli.simulate.report import (
    churn_document,
    document,
    needs_document,
    render_churn,
    render_needs,
    render_text,
)
from gcushare.cli.simulate.simulate_settings import SimulateSettings
from gcushare.cli.simulate.workload import NodeSpec, read_nodes, read_pods, with_granularity, with_mix
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import open_cluster
from gcushare.core.errors import ConfigError
from gcushare.core.packing.expected_fill import Demand
from gcushare.core.packing.nodes_needed import NodesNeededDocument, render_nodes_needed
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME

_MOST_WARNINGS = 10
"""How many nodes and pods that cannot be read are named."""


def run(settings: SimulateSettings, process: ProcessContext) -> int:
    """Run the simulation, print what was found, and return the exit code."""
    if settings.what_if.pending:
        return _count_pending(settings, process)
    plan = _plan_of(settings, process)
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_shown = process.stderr.isatty() and process.environ.get("TERM", "") not in ("", "dumb")
    with Progress(*columns, console=Console(file=process.stderr), transient=True, disable=not is_shown) as bar:
        task = bar.add_task("runs", total=None)

        def done(count: int, of: int) -> None:
            bar.update(task, completed=count, total=of)

        text = _answer(settings, plan, done, Screen(process).width)
    process.stdout.write(text)
    return DONE


def _count_pending(settings: SimulateSettings, process: ProcessContext) -> int:
    vendor, problems = VENDORS_BY_NAME[settings.source.vendor], list[str]()
    like, pods = settings.what_if.node_like or "", settings.what_if.pending_pods or ""

    async def read() -> NodesNeededDocument:
        async with open_cluster(settings.kube, process.environ, program="gcushare-simulate") as client:
            return await read_pending(client, vendor, like, pods, problems)

    try:
        document = asyncio.run(read())
    finally:
        _warn(Screen(process), problems)
    is_json = settings.output is TextOrJson.JSON
    process.stdout.write(to_json(document) if is_json else render_nodes_needed(document))
    return DONE


def _answer(settings: SimulateSettings, plan: Plan, done: Callable[[int, int], None], width: int | None) -> str:
    is_json = settings.output is TextOrJson.JSON
    if settings.what_if.cards_needed:
        needs = compare_needs(plan, settings.jobs, done)
        return to_json(needs_document(plan, needs)) if is_json else render_needs(plan, needs, width)
    if settings.churn.churn is not None:
        churn = Churn(settings.source.load or 1.0, settings.churn.churn, settings.churn.large)
        runs = compare_churn(plan, churn, settings.jobs, done)
        return to_json(churn_document(churn, runs)) if is_json else render_churn(churn, runs, width)
    comparison = compare(plan, settings.jobs, done)
    _draw(settings, comparison)
    return to_json(document(plan, comparison)) if is_json else render_text(plan, comparison, width)


def _plan_of(settings: SimulateSettings, process: ProcessContext) -> Plan:
    nodes, trace = _read(settings, process)
    what_if = settings.what_if
    if what_if.node_mix:
        words = (word.partition("=") for word in what_if.node_mix)
        nodes = with_mix(nodes, {model: int(count) for model, _, count in words})
    card_units = max(node.card_units for node in nodes)
    if what_if.granularity is not None:
        trace = with_granularity(trace, what_if.granularity, card_units)
    seeds = tuple(range(settings.seed, settings.seed + settings.seeds))
    return Plan(
        tuple(nodes),
        tuple(trace),
        settings.source.load,
        seeds,
        settings.policy,
        settings.source.order,
        settings.source.cards_alone,
    )


def _read(settings: SimulateSettings, process: ProcessContext) -> tuple[list[NodeSpec], list[Demand]]:
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


def _draw(settings: SimulateSettings, comparison: Comparison) -> None:
    if settings.svg is None and settings.png is None:
        return
    picture = draw({policy: runs[0] for policy, runs in comparison.runs.items()})
    if settings.svg is not None:
        _write(settings.svg, lambda path: path.write_text(render_svg(picture), encoding="utf-8"))
    if settings.png is not None:
        _write(settings.png, lambda path: write_png(picture, path))


def _write(path: Path, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except OSError as failure:
        raise ConfigError(
            f"{str(path)!r} cannot be written: {failure}; name a file in a folder that exists"
        ) from failure
