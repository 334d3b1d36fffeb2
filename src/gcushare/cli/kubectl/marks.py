"""Marks behind figures: what is out of the ordinary with a card, a pod or a node, and the legend that explains them."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Mark(enum.Enum):
    """A sign, its meaning and its style, in the order of gravity.

    A sign is printable everywhere, and has no meaning to a shell or a spreadsheet.
    """

    SICK = "!", "sick: takes no new pods", "bold red"
    CORDONED = "#", "cordoned by an admin: takes no new pods", "yellow"
    TAINTED = "%", "tainted: takes only pods that tolerate the taint", "yellow"
    CLOSED = ":", "closed to one use: containers of a pod deleted by force may still run on it", "yellow"
    WHOLE = "=", "a pod holds the whole card", "cyan"
    GONE = "?", "pods name this card, but the node does not have it", "bold red"
    OVER = "^", "more is allocated than the card has", "bold red"
    OVER_USE = "@", "a pod uses more memory of a card than it was granted, as its node reports", "bold red"
    CORRECTED = "*", "the record was corrected: the kubelet gave the pod another card than planned", "magenta"
    SHARING = "&", "the pod shares a claim: what is in brackets is counted once, under another pod", "cyan"
    UNPLACED = "+", "more is in use: pods here hold cards that are not known", "bold red"
    OTHER_UNIT = "~", "the node counts in another unit; shown in the heading's", ""

    def __init__(self, sign: str, meaning: str, style: str) -> None:
        self.sign = sign
        self.meaning = meaning
        self.style = style


def signs(marks: Iterable[Mark]) -> str:
    """The signs, as they stand behind a figure."""
    return "".join(mark.sign for mark in marks)


def style_of(marks: Iterable[Mark]) -> str:
    """The style of the gravest mark; plain without any."""
    return next((mark.style for mark in marks), "")


def legend(used: Iterable[Mark]) -> list[str]:
    """One line per mark that was used, in the order of gravity."""
    return [f"{sign} {meaning}" for sign, meaning in legend_rows(used)]


def legend_rows(used: Iterable[Mark]) -> tuple[tuple[str, str], ...]:
    """The signs that were used and their meanings, in the order of gravity."""
    wanted = set(used)
    return tuple((mark.sign, mark.meaning) for mark in Mark if mark in wanted)
