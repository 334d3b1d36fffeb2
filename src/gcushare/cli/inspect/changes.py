"""What changed between two states of a cluster, one line each: for ``--watch`` on a pipe, and below the live table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.cli.inspect.marks import signs
from gcushare.cli.inspect.summary import Summary, marks_of_card, share_of
from gcushare.cli.inspect.table import ask_words
from gcushare.cli.terminal.amounts import show_amount


@dataclass(frozen=True, slots=True)
class WatchedState:
    """A summary reduced to what a change is reported of."""

    nodes: dict[str, str]
    cards: dict[tuple[str, int], str]
    holders: dict[tuple[str, int], dict[str, str]]
    waiting: dict[str, str]
    word: str

    @classmethod
    def of(cls, summary: Summary) -> WatchedState:
        """Reduce a summary."""
        cards: dict[tuple[str, int], str] = {}
        holders: dict[tuple[str, int], dict[str, str]] = {}
        for node in summary.nodes:
            for state in node.state.cards.values():
                held, total = (show_amount(node.amount(units)) for units in (state.held, state.total))
                cards[node.name, state.index] = f"{held}/{total}{signs(marks_of_card(state))}"
            for each in summary.shown_pods(node):
                for grant in each.grants:
                    units = share_of(grant.units, node.state.cards[grant.index], grant.whole)
                    on_card = holders.setdefault((node.name, grant.index), {})
                    on_card[str(each.pod)] = show_amount(node.amount(units))
        return cls(
            nodes={node.name: node.facts.status for node in summary.nodes},
            cards=cards,
            holders=holders,
            waiting={str(facts.ref): ask_words(facts) for facts in summary.waiting},
            word=summary.snapshot.vendor.device_word,
        )


def changes_between(before: WatchedState, after: WatchedState) -> list[str]:
    """Say what changed: nodes, then cards with who came and went, then who waits."""
    return [*_node_changes(before, after), *_card_changes(before, after), *_waiting_changes(before, after)]


def _node_changes(before: WatchedState, after: WatchedState) -> Iterator[str]:
    for name in sorted(before.nodes.keys() | after.nodes.keys()):
        old, new = before.nodes.get(name), after.nodes.get(name)
        if old is None:
            yield f"{name}: came, {new}"
        elif new is None:
            yield f"{name}: gone, or without cards"
        elif old != new:
            yield f"{name}: {old} -> {new}"


def _card_changes(before: WatchedState, after: WatchedState) -> Iterator[str]:
    for key in sorted(after.cards):
        node, card = key
        old, new = before.cards.get(key, "-"), after.cards[key]
        held_before, held_after = before.holders.get(key, {}), after.holders.get(key, {})
        if held_before == held_after and old in (new, "-"):
            continue
        came = sorted(held_after.items() - held_before.items())
        went = sorted(held_before.items() - held_after.items())
        words = [*(f"-{pod} ({units})" for pod, units in went), *(f"+{pod} ({units})" for pod, units in came)]
        yield " ".join([f"{node} {after.word}{card}: {old} -> {new}", *words])


def _waiting_changes(before: WatchedState, after: WatchedState) -> Iterator[str]:
    for pod in sorted(after.waiting.keys() - before.waiting.keys()):
        yield f"{pod}: waits for {after.waiting[pod]}"
    for pod in sorted(before.waiting.keys() - after.waiting.keys()):
        yield f"{pod}: waits no more"
