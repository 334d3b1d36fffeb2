"""How many of the fitting nodes filter names in its answer: the value of ``--filter-answer``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gcushare.runtime.settings.parsers import Parser


@dataclass(frozen=True, slots=True)
class NamedNodes:
    """Which of the fitting nodes a filter answer names: the best ``most``, or all if that is None.

    ``only_equal``: only those of them that score the same as the best.
    """

    most: int | None
    only_equal: bool = False


DEFAULT_ANSWER = NamedNodes(20, only_equal=True)
"""Without ``--filter-answer``; the chart gives the same."""


def answer_parser() -> Parser[NamedNodes]:
    """Read ``all``, ``best:N`` or ``equal:N``."""

    def parse(raw: str) -> NamedNodes:
        if raw == "all":
            return NamedNodes(None)
        match = re.fullmatch(r"(equal|best):([1-9][0-9]{0,5})", raw)
        if match is None:
            raise ValueError("not one of all, best:N and equal:N")
        return NamedNodes(int(match[2]), only_equal=match[1] == "equal")

    def write(named: NamedNodes) -> str:
        return "all" if named.most is None else f"{'equal' if named.only_equal else 'best'}:{named.most}"

    return Parser("ANSWER", "all, or best:N or equal:N with N from 1", parse, write)
