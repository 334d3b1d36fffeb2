"""What programs read from a pipe: upstream gpushare's summary and details, byte for byte.

Source: ``cmd/inspect`` of Aliyun's gpushare-device-plugin, which prints through Go's ``text/tabwriter``. Columns are
padded to their widest cell and two blanks, within lines that have the column; a line's last cell is not padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby

from gcushare.cli.kubectl.summary import NodeSummary, Summary, percent_of, show_amount
from gcushare.cluster.snapshot import PodFacts
from gcushare.core.log_fields import escape

_PADDING = 2
_SUMMARY_RULE, _DETAILS_RULE = 20, 10
"""By so much a dashed line is longer than the first node's rows before they are padded."""

Line = list[str]


def summary_text(summary: Summary) -> str:
    """A node per line, a card per column: ``0/0`` where a node has no such card."""
    word = summary.snapshot.vendor.device_word
    count = max(map(_card_count, summary.nodes), default=0)
    has_pending = any(map(_pending, summary.nodes))
    heading = ["NAME", "IPADDRESS", *(f"{word}{index}(Allocated/Total)" for index in range(count))]
    heading += ["PENDING(Allocated)"] if has_pending else []
    rows = []
    allocated = Fraction(0)
    for node in summary.nodes:
        cards = [node.state.cards.get(index) for index in range(count)]
        held = [(node.amount(card.held), node.amount(card.total)) if card else (0, 0) for card in cards]
        pending = _pending(node)
        used = sum((each for each, _ in held), _asked(node, pending))
        allocated += used
        rows.append([node.name, escape(node.facts.address) or "unknown", *(_ratio(*each) for each in held)])
        rows[-1] += [show_amount(_asked(node, pending)) if pending else ""] if has_pending else []
        rows[-1].append(_ratio(used, node.total))
    rule = _rule(rows[:1], _SUMMARY_RULE) if rows else ""
    lines = [[*heading, f"{word} Memory({_unit(summary)})"], *rows, [rule], *_of_namespace(summary)]
    lines += [[f"Allocated/Total {word} Memory In Cluster:"], [_ratio_and_percent(allocated, summary.total), ""]]
    return _tabulate(lines)


def details_text(summary: Summary) -> str:
    """A block per node, with a line per pod and what it holds of each card."""
    word = summary.snapshot.vendor.device_word
    blocks = [(node, _pod_lines(summary, node)) for node in summary.nodes]
    rule = _rule(blocks[0][1], _DETAILS_RULE) if blocks else ""
    lines: list[Line] = []
    allocated = Fraction(0)
    for node, pods in blocks:
        pending = _pending(node)
        used = node.allocated + _asked(node, pending)
        allocated += used
        cards = [f"{word}{index}(Allocated)" for index in range(_card_count(node))]
        lines += [
            [""],
            ["NAME:", node.name],
            ["IPADDRESS:", escape(node.facts.address) or "unknown"],
            [""],
            ["NAME", "NAMESPACE", *cards, *(["Pending(Allocated)"] if pending else []), ""],
            *pods,
            ["Allocated :", f"{show_amount(used)} ({percent_of(used, node.total)}%)", ""],
            ["Total :", f"{show_amount(node.total)} ", ""],
            [rule],
        ]
    lines += [[""], *_of_namespace(summary), [""]]
    sum_line = [f"Allocated/Total {word} Memory In Cluster:", _ratio_and_percent(allocated, summary.total), ""]
    return _tabulate([*lines, sum_line])


def _pod_lines(summary: Summary, node: NodeSummary) -> list[Line]:
    """The node's pods, first card first and by name, then those that have no card yet."""
    pending = _pending(node)
    indexes = range(_card_count(node))
    rows = []
    for pod in sorted(
        summary.shown_pods(node),
        key=lambda pod: (min(grant.index for grant in pod.grants), pod.pod.namespace, pod.pod.name),
    ):
        held = {grant.index: node.amount(node.state.cards[grant.index].share(grant)) for grant in pod.grants}
        amounts = [show_amount(held.get(index, Fraction(0))) for index in indexes]
        rows.append([pod.pod.name, pod.pod.namespace, *amounts, *(["0"] if pending else []), ""])
    for facts in summary.shown(pending):
        row = [facts.ref.name, facts.ref.namespace, *("0" for _ in indexes), show_amount(_asked(node, [facts])), ""]
        rows.append(row)
    return rows


def _card_count(node: NodeSummary) -> int:
    """One more than the highest index that a card of the node has."""
    return max((index + 1 for index, state in node.state.cards.items() if state.card is not None), default=0)


def _pending(node: NodeSummary) -> list[PodFacts]:
    """The pods that are bound to the node and whose cards are not known."""
    found = (*(facts for facts in node.pending_pods if facts.node), *node.unplaced_pods)
    return sorted(found, key=lambda facts: (facts.ref.namespace, facts.ref.name))


def _asked(node: NodeSummary, pods: Sequence[PodFacts]) -> Fraction:
    return node.amount(sum(facts.units or facts.unplaced for facts in pods))


def _ratio(part: Fraction | int, whole: Fraction | int) -> str:
    return f"{show_amount(Fraction(part))}/{show_amount(Fraction(whole))}"


def _ratio_and_percent(part: Fraction, whole: Fraction) -> str:
    return f"{_ratio(part, whole)} ({percent_of(part, whole)}%)"


def _unit(summary: Summary) -> str:
    """The heading's unit; empty without nodes. Upstream's own nodes do not say it: its guess is from a card's size."""
    if not summary.nodes:
        return ""
    if summary.scale.per_gib is not None or "MiB" not in summary.snapshot.vendor.auto_units:
        return summary.scale.label
    return "MiB" if summary.nodes[0].total > 100 * _card_count(summary.nodes[0]) else "GiB"


def _of_namespace(summary: Summary) -> list[Line]:
    """The line that ``-n``, which upstream does not have, asks for."""
    if summary.namespace is None:
        return []
    amount = show_amount(summary.of_namespace)
    return [[f"Allocated to namespace {summary.namespace}: {amount} {summary.scale.label}"]]


def _rule(rows: Sequence[Line], more: int) -> str:
    return "-" * (more + sum(len("\t".join(row).encode()) + 1 for row in rows))


def _tabulate(lines: Sequence[Line]) -> str:
    """Lay out lines whose every cell but the last is one of a column."""
    for column in range(max(map(len, lines)) - 1):
        for has_column, run in groupby(lines, key=lambda line: column < len(line) - 1):
            block = list(run)
            width = max(len(line[column]) for line in block) + _PADDING if has_column else 0
            for line in block if has_column else ():
                line[column] = line[column].ljust(width)
    return "".join("".join(line) + "\n" for line in lines)
