"""``--details``: each node's pods with their cards, namespaces and states."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gcushare.cli.inspect.table import SHORT_CARDS, ask_words, card_cell, cluster_lines, name_cell, remarks
from gcushare.cli.kubectl.marks import Mark, legend, signs, style_of
from gcushare.cli.kubectl.summary import NodeSummary, Summary, percent_of, show_amount
from gcushare.cli.terminal.layout import Cell, Row, lay_out, plain_table
from gcushare.cluster.snapshot import PodFacts
from gcushare.core.assignments import Assignment
from gcushare.core.log_fields import escape

_RULE = 60
_UNREAD = "its record is damaged or not written yet; 'explain' reads it"


def detail_page(summary: Summary, width: int | None) -> list[Text]:
    """Every node that has pods to show, then the pods that wait, then the cluster's sum."""
    details = _Details(summary, width)
    lines: list[Text] = []
    for node in summary.nodes:
        pods = summary.shown_pods(node)
        pending = summary.shown(node.pending_pods)
        unplaced = summary.shown(node.unplaced_pods)
        sharing = any(summary.shown(facts for facts, _ in node.sharing_pods))
        if pods or pending or unplaced or sharing or (summary.namespace is None and len(summary.nodes) == 1):
            lines += details.block(node, pods, pending, unplaced)
    if summary.waiting:
        asked = [(Cell(facts.ref.name, "yellow"), facts.ref.namespace, ask_words(facts)) for facts in summary.waiting]
        lines += [*plain_table(("PENDING POD", "NAMESPACE", "ASKS"), asked, width), Text("")]
    below = [*([SHORT_CARDS] if details.is_short else []), *legend(details.used)]
    below += [
        f"{facts.ref} ({facts.node}) holds cards that are not known: {escape(facts.problem) or _UNREAD}"
        for node in summary.nodes
        for facts in summary.shown(node.unplaced_pods)
    ]
    below += remarks(summary, names_pods=False)
    return [*lines, *map(Text, below), *cluster_lines(summary, _RULE, width)]


class _Details:
    """Sets the nodes' blocks, and remembers which marks they used and whether cards had short headings."""

    def __init__(self, summary: Summary, width: int | None) -> None:
        self._summary = summary
        self._width = width
        self.used: set[Mark] = set()
        self.is_short = False

    def block(
        self, node: NodeSummary, pods: Sequence[Assignment], pending: Sequence[PodFacts], unplaced: Sequence[PodFacts]
    ) -> list[Text]:
        """One node: pods that hold cards, those that wait for one here, and those whose cards are unknown."""
        word = self._summary.snapshot.vendor.device_word
        cards = tuple(f"{word}{index}" for index in node.state.cards)
        first = (Cell("NAME"), Cell("NAMESPACE"), Cell("STATE"))
        last = (Cell("PENDING(Allocated)"),) if pending else ()
        heading = Row(first, tuple(Cell(f"{card}(Allocated)") for card in cards), last)
        blank = (Cell(""),) * len(last)
        rows = [self._pod_row(node, each, blank) for each in pods]
        shared = {facts.ref.uid: held for facts, held in node.sharing_pods}
        sharing = self._summary.shown(facts for facts, _ in node.sharing_pods)
        rows += [self._sharing_row(node, facts, shared[facts.ref.uid], blank) for facts in sharing]
        rows += [_pending_row(node, facts) for facts in pending]
        rows += [self._unplaced_row(node, facts, blank) for facts in unplaced]
        sums = tuple(card_cell(node, state, self.used) for state in node.state.cards.values())
        rows.append(Row((Cell("(allocated/total)", "dim"), Cell(""), Cell("")), sums, blank))
        short = Row(first, tuple(map(Cell, cards)), (Cell("PENDING"),) * len(last))
        lines, is_short = lay_out(heading, short, rows, self._width)
        self.is_short = self.is_short or is_short
        return [
            Text(f"NAME:       {name_cell(self._summary, node, self.used).text}"),
            Text(f"IPADDRESS:  {escape(node.facts.address) or '-'}"),
            *([] if node.facts.is_ready else [Text("STATUS:     NotReady", "red")]),
            Text(""),
            *lines,
            Text(f"Allocated:  {show_amount(node.allocated)} ({percent_of(node.allocated, node.total)}%)"),
            Text(f"Total:      {show_amount(node.total)} {self._summary.scale.label}"),
            Text("-" * (_RULE if self._width is None else min(_RULE, self._width))),
            Text(""),
        ]

    def _pod_row(self, node: NodeSummary, assignment: Assignment, blank: tuple[Cell, ...]) -> Row:
        facts = self._summary.facts_of(assignment)
        cards = node.state.cards
        held = {grant.index: cards[grant.index].share(grant) for grant in assignment.grants}
        found = {Mark.OVER_USE: facts.over_use, Mark.CORRECTED: facts.corrected}
        marks = tuple(mark for mark, words in found.items() if words)
        self.used.update(marks)
        limit = assignment.limit // max(1, len(held))
        most = f" (max {show_amount(node.amount(limit))})" if limit else ""
        amounts = tuple(
            Cell(show_amount(node.amount(held[index])) + most, "bold") if index in held else Cell("0", "dim")
            for index in cards
        )
        return Row(_pod_cells(facts, marks, style_of(marks)), amounts, blank)

    def _sharing_row(self, node: NodeSummary, facts: PodFacts, held: Assignment, blank: tuple[Cell, ...]) -> Row:
        self.used.add(Mark.SHARING)
        shares = {
            grant.index: show_amount(node.amount(node.state.cards[grant.index].share(grant))) for grant in held.grants
        }
        amounts = tuple(Cell(f"({shares[index]})" if index in shares else "0", "dim") for index in node.state.cards)
        return Row(_pod_cells(facts, (Mark.SHARING,), Mark.SHARING.style), amounts, blank)

    def _unplaced_row(self, node: NodeSummary, facts: PodFacts, blank: tuple[Cell, ...]) -> Row:
        self.used.add(Mark.UNPLACED)
        unknown = tuple(Cell("?", "bold red") for _ in node.state.cards)
        return Row(_pod_cells(facts, (Mark.UNPLACED,), "bold red"), unknown, blank)


def _pending_row(node: NodeSummary, facts: PodFacts) -> Row:
    nothing = tuple(Cell("0", "dim") for _ in node.state.cards)
    asked = ask_words(facts) if facts.whole_cards else show_amount(node.amount(facts.units))
    return Row(_pod_cells(facts, (), "yellow"), nothing, (Cell(asked),))


def _pod_cells(facts: PodFacts, marks: Sequence[Mark], style: str) -> tuple[Cell, ...]:
    """The name of a pod with its marks, its namespace and its state."""
    of_state = {"Running": "", "Pending": "yellow", "": ""}.get(facts.state, "red")
    return Cell(facts.ref.name + signs(marks), style), Cell(facts.ref.namespace), Cell(facts.state or "-", of_state)
