"""The comparison as text for people and as a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import msgspec

from gcushare.cli.simulate.churn import Churn, ChurnRun
from gcushare.cli.simulate.comparing import Comparison, Plan
from gcushare.cli.simulate.runs import Run
from gcushare.cli.simulate.workload import NodeSpec
from gcushare.cli.terminal.layout import plain_table
from gcushare.core.wording import counted

_HEADINGS = ("POLICY", "ALLOCATED", "SPREAD", "PARTIAL", "IDLE", "UNPLACED")
_MAX_KINDS = 6
_MARKS = (5, 6, 7, 8, 9, 10)
"""Tenths of what was asked for in all: before the middle hardly any pod is refused."""


def render_text(plan: Plan, comparison: Comparison, width: int | None) -> str:
    """Policies from best to worst, the bound, and which pods found no place."""
    cards = sum(node.cards for node in plan.nodes)
    pods = round(mean(run.pods for runs in comparison.runs.values() for run in runs))
    seeds = counted(len(plan.seeds), "seed")
    lines = [
        f"{counted(len(plan.nodes), 'node')}, {counted(cards, 'card')}; {counted(pods, 'pod')}; {seeds}; percent of "
        "all card units",
        "",
    ]
    rows = [
        (
            policy,
            _percent(comparison.mean_allocated(policy)),
            f"±{100 * comparison.spread_allocated(policy):.2f}" if len(plan.seeds) > 1 else "",
            _percent(mean(run.partial for run in comparison.runs[policy])),
            _percent(mean(run.idle for run in comparison.runs[policy])),
            f"{mean(run.unplaced_pods for run in comparison.runs[policy]):.0f}",
        )
        for policy in _ranked(comparison)
    ]
    if comparison.bounds is not None:
        bound = mean(each.least for each in comparison.bounds)
        rows.append(("(no policy can exceed)", _percent(bound), "", "", "", ""))
    lines += _table(_HEADINGS, rows, width)
    lines += ["", "Unplaced pods by kind, mean of the seeds:"]
    lines += [f"  {policy}: {_kinds(comparison.runs[policy])}" for policy in _ranked(comparison)]
    lines += _refusals_over_time(comparison, width)
    return "\n".join(lines) + "\n"


def document(plan: Plan, comparison: Comparison) -> dict[str, Any]:
    """Everything, every run with its curve."""
    return {
        "nodes": len(plan.nodes),
        "cards": sum(node.cards for node in plan.nodes),
        "load": plan.load,
        "order": plan.order.value,
        "seeds": list(plan.seeds),
        "policies": {
            policy: {
                "allocatedMean": comparison.mean_allocated(policy),
                "allocatedSpread": comparison.spread_allocated(policy),
                "runs": [msgspec.to_builtins(run) for run in runs],
            }
            for policy, runs in comparison.runs.items()
        },
        "bounds": None if comparison.bounds is None else [msgspec.to_builtins(each) for each in comparison.bounds],
    }


def render_churn(churn: Churn, runs: Mapping[str, Sequence[ChurnRun]], width: int | None) -> str:
    """Policies in the order asked for: how long pods wait, and the largest piece that is free."""
    headings = ("POLICY", "ALLOCATED", "WAIT", "LARGE WAIT", "LARGE DELAYED", "LARGEST PIECE")
    rows = [
        (
            policy,
            _percent(mean(run.allocated for run in found)),
            f"{mean(run.waited for run in found):.4f}",
            f"{mean(run.large_waited for run in found):.4f}",
            _percent(mean(run.large_refused_at_first for run in found)),
            f"{mean(run.largest_piece for run in found):.2f}",
        )
        for policy, found in runs.items()
    ]
    intro = (
        f"load {100 * churn.load:.0f} % for {churn.lifetimes:g} mean lifetimes; waits in mean lifetimes; large: "
        f"{counted(churn.large, 'whole card')} or more; delayed in percent; largest piece in idle cards of one node"
    )
    return "\n".join([intro, "", *_table(headings, rows, width)]) + "\n"


def churn_document(churn: Churn, runs: Mapping[str, Sequence[ChurnRun]]) -> dict[str, Any]:
    return {
        "load": churn.load,
        "lifetimes": churn.lifetimes,
        "large": churn.large,
        "policies": {policy: [msgspec.to_builtins(run) for run in found] for policy, found in runs.items()},
    }


def render_needs(plan: Plan, needs: Mapping[str, Sequence[NodeSpec]], width: int | None) -> str:
    """How many nodes and cards each policy needs, the fewest first."""
    ranked = sorted(needs, key=lambda policy: (sum(node.cards for node in needs[policy]), policy))
    given = sum(node.cards for node in plan.nodes)
    rows = []
    for policy in ranked:
        cards = sum(node.cards for node in needs[policy])
        rows.append((policy, str(len(needs[policy])), str(cards), f"{100 * cards / given:.1f} %"))
    return "\n".join(_table(("POLICY", "NODES", "CARDS", "OF THE GIVEN"), rows, width)) + "\n"


def needs_document(plan: Plan, needs: Mapping[str, Sequence[NodeSpec]]) -> dict[str, Any]:
    return {
        "given": {"nodes": len(plan.nodes), "cards": sum(node.cards for node in plan.nodes)},
        "needed": {
            policy: {"nodes": len(nodes), "cards": sum(node.cards for node in nodes)} for policy, nodes in needs.items()
        },
    }


def _refusals_over_time(comparison: Comparison, width: int | None) -> list[str]:
    """A table of the first seed: pods refused by the time that so much was asked for, by policy and kind."""
    runs = {policy: comparison.runs[policy][0] for policy in _ranked(comparison)}
    if not any(run.unplaced for run in runs.values()):
        return []
    last = max(run.samples[-1].arrived for run in runs.values())
    marks = [last * tenth / 10 for tenth in _MARKS]
    headings = ("POLICY", "KIND", *(f"{100 * mark:.0f} %" for mark in marks))
    rows = [
        (policy, kind, *(str(_refused(run, kind, mark)) for mark in marks))
        for policy, run in runs.items()
        for kind in run.unplaced
    ]
    intro = "Unplaced pods once so much of all cards was asked for, first seed:"
    return ["", intro, *_table(headings, rows, width)]


def _refused(run: Run, kind: str, mark: float) -> int:
    """How many pods of a kind were refused up to the last sample that is not beyond the mark."""
    reached = [sample for sample in run.samples if sample.arrived <= mark + 1e-9]
    return reached[-1].unplaced.get(kind, 0) if reached else 0


def _ranked(comparison: Comparison) -> list[str]:
    return sorted(comparison.runs, key=lambda policy: (-comparison.mean_allocated(policy), policy))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    return [line.plain for line in plain_table(headings, rows, width)]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _kinds(runs: Sequence[Run]) -> str:
    counted: Counter[str] = Counter()
    for run in runs:
        counted.update(run.unplaced)
    kinds = [(kind, count / len(runs)) for kind, count in counted.most_common()]
    shown = ", ".join(f"{count:.0f} of {kind}" for kind, count in kinds[:_MAX_KINDS])
    rest = sum(count for _, count in kinds[_MAX_KINDS:])
    return f"{shown}, {rest:.0f} others" if rest else shown or "none"
