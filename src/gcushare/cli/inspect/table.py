"""The table that people know: a node per row, a card per column, the cluster's sum at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from rich.text import Text

from gcushare.cli.kubectl.marks import Mark, legend, signs, style_of
from gcushare.cli.kubectl.summary import NodeSummary, Summary, marks_of_card, natural_key, show_amount
from gcushare.cli.terminal.layout import Cell, Row, lay_out
from gcushare.cluster.snapshot import PodFacts
from gcushare.core.card_state import CardMode, CardState
from gcushare.core.cards import Health, describe_closure
from gcushare.core.log_fields import escape
from gcushare.core.wording import counted, some_names

SHORT_CARDS = "each card: allocated/total"
_MAX_NAMED = 5
"""Pods or cards named in one line; how many there are is always said."""
_LEAST_RULE = 20
"""Upstream gpushare's dashed line is the first row's raw text and this much longer."""


def table_page(summary: Summary, width: int | None, *, is_wide: bool) -> list[Text]:
    """The whole table for a terminal of ``width`` columns, None for a pipe."""
    used: set[Mark] = set()
    has_pending = any(node.pending_pods for node in summary.nodes)
    rows = tuple(_node_row(summary, node, used, has_pending=has_pending, is_wide=is_wide) for node in summary.nodes)
    word = summary.snapshot.vendor.device_word
    cards = tuple(f"{word}{index}" for index in summary.card_indexes)
    first = (Cell("NAME"), Cell("IPADDRESS"))
    # Without nodes there are no figures, and so no unit that a heading could name.
    unit = f"({summary.scale.label})" if summary.nodes else ""
    last = [*(["PENDING(Allocated)"] if has_pending else []), f"{word} Memory{unit}"]
    last += ["STATUS", "PODS", "FREE", "LARGEST FREE", "UNIT", "MODEL"] if is_wide else []
    heading = Row(first, tuple(Cell(f"{card}(Allocated/Total)") for card in cards), tuple(map(Cell, last)))
    short = Row(first, tuple(map(Cell, cards)), tuple(Cell(word.removesuffix("(Allocated)")) for word in last))
    lines, is_short = lay_out(heading, short, rows, width)
    below = [SHORT_CARDS] if is_short else []
    below += [*legend(used), *remarks(summary)]
    rule_width = _LEAST_RULE + sum(cell.width + 1 for row in rows[:1] for cell in row.cells if cell.text)
    return [*lines, *map(Text, below), *cluster_lines(summary, rule_width, width)]


def card_cell(node: NodeSummary, state: CardState | None, used: set[Mark]) -> Cell:
    """One card's figures with its marks; a node without this card has an empty cell."""
    if state is None:
        return Cell("")
    marks = marks_of_card(state, node)
    used.update(marks)
    figures = f"{show_amount(node.amount(state.held))}/{show_amount(node.amount(state.total))}"
    return Cell(figures + signs(marks), style_of(marks))


def name_cell(summary: Summary, node: NodeSummary, used: set[Mark]) -> Cell:
    """A node's name, marked if it is cordoned or tainted, and if its figures were converted."""
    found = {
        Mark.CORDONED: node.facts.is_unschedulable,
        Mark.TAINTED: bool(node.facts.taints),
        Mark.OTHER_UNIT: node.state.unit is not None and not summary.scale.is_native(node.state.unit),
    }
    marks = tuple(mark for mark, is_so in found.items() if is_so)
    used.update(marks)
    return Cell(node.name + signs(marks), style_of(marks))


def cluster_lines(summary: Summary, rule_width: int, width: int | None) -> list[Text]:
    """The dashed line and the cluster's sum as upstream gpushare writes it; a namespace's too, if one is asked for."""
    word = summary.snapshot.vendor.device_word
    scope = "On These Nodes" if summary.snapshot.is_partial else "In Cluster"
    lines = [
        Text("-" * (rule_width if width is None else min(rule_width, width))),
        Text(f"Allocated/Total {word} Memory {scope}:"),
        # Upstream gpushare's line ends with a blank.
        Text(f"{show_amount(summary.allocated)}/{show_amount(summary.total)} ({summary.percent}%) "),
    ]
    if summary.namespace is not None:
        of_it = show_amount(summary.of_namespace)
        lines.insert(1, Text(f"Allocated to namespace {summary.namespace}: {of_it} {summary.scale.label}"))
    return lines


def remarks(summary: Summary, *, names_pods: bool = True) -> list[str]:
    """What figures cannot say: sick cards' reasons, nodes that are not ready, and with ``names_pods`` waiting pods."""
    lines = []
    if summary.scale.per_gib is not None:
        unknown = [node.name for node in summary.nodes if node.state.unit is None]
        if unknown:
            lines.append(f"unit unknown, taken as {summary.scale.label}: {_named(unknown)}")
    cards = [
        (f"{node.name} {summary.snapshot.vendor.device_word}{state.index}", state.card)
        for node in summary.nodes
        for state in node.state.cards.values()
        if state.card is not None
    ]
    sick = [
        f"{name}: {escape(card.reason)}" for name, card in cards if card.health is not Health.HEALTHY and card.reason
    ]
    closed = [f"{name}: {escape(describe_closure(each))}" for name, card in cards for each in card.closures]
    moved = [f"{name}: minor number {card.minor}" for name, card in cards if card.minor is not None]
    kinds = (("sick", sick, "more cards"), ("closed", closed, "more"), ("numbered apart", moved, "more cards"))
    for kind, found, more in kinds:
        lines += [f"{kind}: {each}" for each in found[:_MAX_NAMED]]
        if len(found) > _MAX_NAMED:
            lines.append(f"{kind}: {len(found) - _MAX_NAMED} {more}")
    unready = [node.name for node in summary.nodes if not node.facts.is_ready]
    if unready:
        lines.append(f"not ready: {_named(unready)}")
    lines += _free_line(summary)
    lost = summary.snapshot.lost_nodes()
    if lost:
        pods = sum(len(held) for held in lost.values())
        lines.append(f"{counted(pods, 'pod')} on nodes without cards, or that are gone: {_named(sorted(lost))}")
    holding = [node for node in summary.nodes if node.unplaced_pods]
    if names_pods and holding:
        count = sum(len(node.unplaced_pods) for node in holding)
        where = _named([node.name for node in holding])
        lines.append(f"{counted(count, 'pod', 'hold')} cards that are not known, on {where}; -d names them")
    served = [node.state for node in summary.nodes if node.state.serves_whole]
    modes = Counter(state.mode for node in summary.nodes for state in node.state.cards.values())
    if served or modes[CardMode.WHOLE]:
        free = sum(node.whole_cards_free for node in summary.nodes)
        lines.append(f"whole cards: {free} free, {modes[CardMode.WHOLE]} held whole, {modes[CardMode.SHARED]} shared")
    if names_pods and summary.waiting:
        lines.append(_waiting_line(summary))
    return lines


def _free_line(summary: Summary) -> list[str]:
    """What is free for which pods, where that is not the same for all nodes."""
    tainted = [node.name for node in summary.nodes if node.facts.taints and node.free]
    closed = [node for node in summary.nodes if not node.facts.takes_pods and node.room]
    if not tainted and not closed:
        return []
    label, parts = summary.scale.label, [f"{show_amount(summary.free)} {summary.scale.label} for any pod"]
    if tainted:
        parts.append(
            f"{show_amount(summary.free_if_tolerated)} {label} for pods that tolerate the taints of {_named(tainted)}"
        )
    if closed:
        room = show_amount(sum((node.room for node in closed), Fraction(0)))
        parts.append(f"{room} {label} for none, on {_named([node.name for node in closed])}")
    return [f"free: {'; '.join(parts)}"]


def _waiting_line(summary: Summary) -> str:
    is_one_unit = all(summary.scale.is_native(node.state.unit) for node in summary.nodes)
    amount = f"{summary.waiting_units} {summary.scale.label}" if is_one_unit else "cards"
    whole = sum(facts.whole_cards for facts in summary.waiting)
    asked = [amount] if summary.waiting_units or not whole else []
    asked += [counted(whole, "whole card")] if whole else []
    names = _named([f"{facts.ref} ({ask_words(facts)})" for facts in summary.waiting])
    return f"pending: {counted(len(summary.waiting), 'pod', 'wait')} for {' and '.join(asked)}: {names}"


def ask_words(facts: PodFacts) -> str:
    """What a pod requests, in short."""
    if facts.whole_cards:
        return counted(facts.whole_cards, "whole card")
    return str(facts.units) if facts.units else "refused request"


def _node_row(summary: Summary, node: NodeSummary, used: set[Mark], *, has_pending: bool, is_wide: bool) -> Row:
    last = [Cell(show_amount(node.pending), "yellow" if node.pending_pods else "")] if has_pending else []
    marks = (Mark.UNPLACED,) if node.unplaced_pods else ()
    used.update(marks)
    last.append(Cell(f"{show_amount(node.allocated)}/{show_amount(node.total)}{signs(marks)}", style_of(marks)))
    if is_wide:
        last += [
            Cell(node.facts.status, "" if node.facts.is_ready else "red"),
            Cell(str(len(node.state.assignments))),
            Cell(show_amount(node.free)),
            Cell(show_amount(node.amount(node.state.largest_available if node.facts.takes_pods else 0))),
            Cell(node.state.unit.label if node.state.unit is not None else "?"),
            Cell(",".join(node.models) or "-"),
        ]
    cards = tuple(card_cell(node, node.state.cards.get(index), used) for index in summary.card_indexes)
    return Row((name_cell(summary, node, used), Cell(node.facts.address or "-")), cards, tuple(last))


def _named(names: Sequence[str]) -> str:
    return some_names(sorted(names, key=natural_key), _MAX_NAMED)
