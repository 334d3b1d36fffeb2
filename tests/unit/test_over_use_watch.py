"""How soon an over-use is reported, in a time that the test moves, through the real parts from card to Event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.over_use_node import POLL_S, OverUseNode

MOST_POLLS = 2


@pytest.mark.parametrize("after_s", [0.0, 0.1, 2.5, 4.9, 5.0, 12.3])
async def test_from_the_first_byte_too_many_to_the_event_it_takes_two_polls_at_most(
    tmp_path: Path, after_s: float
) -> None:
    node = OverUseNode(tmp_path)
    node.start("p0", 100)
    node.use({100: 4})
    while node.now_s + POLL_S <= after_s:
        await node.poll()
    assert node.events.posted == []
    begun_s = after_s
    node.use({100: 5})
    polls = 0
    while not node.events.posted:
        await node.poll()
        polls += 1
        assert polls <= MOST_POLLS
    ((posted_s, reason, pod),) = node.events.posted
    assert (reason, pod) == ("OverUse", "p0")
    assert posted_s - begun_s <= MOST_POLLS * POLL_S


async def test_a_card_that_the_last_poll_could_not_read_tells_nothing_of_its_pods(tmp_path: Path) -> None:
    node = OverUseNode(tmp_path)
    node.start("p0", 100)
    node.use({100: 5})
    await node.poll()
    node.source.fails = True
    for _ in range(3):
        await node.poll()
    assert node.watch.figures == {}
    assert node.events.posted == []
    node.source.fails = False
    await node.poll()
    assert [reason for _, reason, _ in node.events.posted] == ["OverUse"]
