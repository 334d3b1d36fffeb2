"""The bars: exactly as long as asked for, and every pod is seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gcushare.cluster.card_drawing.bars_and_boxes import LETTERS, BarSegment, granted_bar, letter_of, used_bar

PARTS = st.lists(st.builds(BarSegment, st.integers(0, 200), st.booleans()), max_size=12)


@given(PARTS, st.integers(0, 300), st.integers(12, 120))
def test_a_bar_has_its_width_and_a_part_for_every_pod(parts: list[BarSegment], total: int, width: int) -> None:
    bar = granted_bar(parts, total, width).plain
    assert len(bar) == width
    assert [char for char in bar if char in LETTERS] == [letter_of(position) for position in range(len(parts))]


@given(st.lists(st.integers(1, 16), min_size=1, max_size=8), st.integers(16, 100))
def test_a_part_is_as_long_as_its_share_to_a_column(sizes: list[int], width: int) -> None:
    total = sum(sizes)
    bar = granted_bar([BarSegment(size) for size in sizes], total, width).plain
    starts = [*(bar.index(letter_of(position)) for position in range(len(sizes))), width]
    for position, size in enumerate(sizes):
        length = starts[position + 1] - starts[position]
        # Parts that take the one column that all are seen by push the ones behind them.
        assert abs(length - size * width / total) <= len(sizes)


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 38), st.integers(10, 120))
def test_the_bar_of_use_has_its_width_and_shows_whether_there_is_any(used: int, total: int, width: int) -> None:
    bar = used_bar(used, total, width).plain
    assert len(bar) == width
    assert (bar[0] == "░") is (used == 0)
