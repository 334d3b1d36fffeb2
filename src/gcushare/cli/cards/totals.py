"""A node's cards in one line: how many of what, and how much of all is granted and in use. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cli.cards.figures import show_bytes, show_share
from gcushare.cli.cards.view import NodeView
from gcushare.core.nodes import CardMode
from gcushare.core.units import MemoryUnit


def summary_parts(view: NodeView, unit: MemoryUnit | None) -> Iterator[tuple[str, str]]:
    """The parts of the line, each with its style."""
    cards = view.cards
    yield _count(len(cards), "card"), ""
    for word, style, count in (
        ("sick", "bold red", sum(not card.healthy for card in cards)),
        ("cordoned", "yellow", sum(card.cordoned for card in cards)),
    ):
        if count:
            yield f"{count} {word}", style
    modes = ((mode.value, sum(card.mode is mode for card in cards)) for mode in CardMode)
    told = ", ".join(f"{count} {word}" for word, count in modes if count)
    if told:
        yield told, ""
    units = [card.units for card in cards if card.units is not None]
    if units:
        yield f"granted {show_share(sum(card.granted_units for card in cards), sum(units), unit)}", ""
    used = [card.used_bytes for card in cards if card.used_bytes is not None]
    if used:
        yield f"used {show_bytes(sum(used), unit)}", ""
    if view.pods_known:
        yield _count(len({holder.uid for card in cards for holder in card.holders}), "pod"), ""


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
