"""The comparison as text for people and as a document for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gcushare.cli.simulate.comparing import Comparison
from gcushare.cli.simulate.runs import Run
from gcushare.cli.simulate.workload import EmptyNode
from gcushare.cli.terminal.layout import plain_table
from gcushare.core.wording import counted

_HEADINGS = ("POLICY", "ALLOCATED", "PARTIAL", "IDLE", "UNPLACED")
_MAX_KINDS = 6


def render_text(plan: Comparison, runs: Mapping[str, Run], width: int | None) -> str:
    """Policies from best to worst, and which pods found no place."""
    cards = sum(node.cards for node in plan.nodes)
    pods = next(run.pods for run in runs.values())
    rows = [
        (policy, _percent(run.allocated), _percent(run.partial), _percent(run.idle), str(sum(run.unplaced.values())))
        for policy, run in _ranked(runs)
    ]
    size = f"{counted(len(plan.nodes), 'node')}, {counted(cards, 'card')}; {counted(pods, 'pod')}"
    lines = [f"{size}; percent of all card units", "", *_table(_HEADINGS, rows, width), "", "Unplaced pods by kind:"]
    lines += [f"  {policy}: {_kinds(run)}" for policy, run in _ranked(runs)]
    return "\n".join(lines) + "\n"


def document(plan: Comparison, runs: Mapping[str, Run]) -> dict[str, Any]:
    return {
        "nodes": len(plan.nodes),
        "cards": sum(node.cards for node in plan.nodes),
        "load": plan.load,
        "policies": {policy: msgspec.to_builtins(run) for policy, run in runs.items()},
    }


def render_needs(plan: Comparison, needs: Mapping[str, Sequence[EmptyNode]], width: int | None) -> str:
    """How many nodes and cards each policy needs, the fewest first."""
    ranked = sorted(needs, key=lambda policy: (sum(node.cards for node in needs[policy]), policy))
    given = sum(node.cards for node in plan.nodes)
    rows = []
    for policy in ranked:
        cards = sum(node.cards for node in needs[policy])
        rows.append((policy, str(len(needs[policy])), str(cards), f"{100 * cards / given:.1f} %"))
    return "\n".join(_table(("POLICY", "NODES", "CARDS", "OF THE GIVEN"), rows, width)) + "\n"


def needs_document(plan: Comparison, needs: Mapping[str, Sequence[EmptyNode]]) -> dict[str, Any]:
    return {
        "given": {"nodes": len(plan.nodes), "cards": sum(node.cards for node in plan.nodes)},
        "needed": {
            policy: {"nodes": len(nodes), "cards": sum(node.cards for node in nodes)} for policy, nodes in needs.items()
        },
    }


def _ranked(runs: Mapping[str, Run]) -> list[tuple[str, Run]]:
    return sorted(runs.items(), key=lambda pair: (-pair[1].allocated, pair[0]))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    return [line.plain for line in plain_table(headings, rows, width)]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _kinds(run: Run) -> str:
    kinds = Counter(run.unplaced).most_common()
    shown = ", ".join(f"{count} of {kind}" for kind, count in kinds[:_MAX_KINDS])
    rest = sum(count for _, count in kinds[_MAX_KINDS:])
    return f"{shown}, {rest} others" if rest else shown or "none"
