"""A library that numbers its cards otherwise when it is opened again: each card stays the one that it was."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gcushare.cards.errors import CardMovedError
from gcushare.cards.worker.client import IsolatedSource
from gcushare.core.cards import Card
from tests.native.libraries import FakeLibrary
from tests.protocol.worker_rig import worker


async def test_a_replaced_card_is_another_card(tmp_path: Path) -> None:
    async with worker(tmp_path) as (fake, source, _):
        old = (await source.list_cards()).cards[1]
        fake.control("set uuid 1 GCU-NEW")
        new = (await source.list_cards()).cards[1]
        assert (new.index, new.uuid) == (1, "GCU-NEW")
        reading = await source.health(old)
    assert (reading.healthy, reading.reason) == (False, "the library no longer lists the card")


@asynccontextmanager
async def last_of_three_rests(folder: Path) -> AsyncIterator[tuple[FakeLibrary, IsolatedSource, tuple[Card, ...]]]:
    """A library of three cards, whose last one crashed when it was asked."""
    async with worker(folder, "cards 3") as (fake, source, _):
        cards = (await source.list_cards()).cards
        fake.control("cards 3", "crash EfmlGetDevIsHealth 2")
        await source.health(cards[2])
        yield fake, source, cards


async def test_a_resting_card_that_moved_to_another_position_is_listed_once(tmp_path: Path) -> None:
    async with last_of_three_rests(tmp_path) as (fake, source, _):
        moved = [f"set uuid {slot} GCU-UUID-{slot + 1:04d}" for slot in range(2)]
        fake.control("cards 3", *moved)  # card 0 fell off, the others moved down; position 2 rests
        report = await source.list_cards()
    assert sorted(card.uuid for card in report.cards) == ["GCU-UUID-0001", "GCU-UUID-0002"]


async def test_the_card_that_took_a_resting_ones_position_is_listed_at_the_next_look(tmp_path: Path) -> None:
    async with last_of_three_rests(tmp_path) as (fake, source, cards):
        moved = [f"set uuid {slot} GCU-UUID-{(slot + 1) % 3:04d}" for slot in range(3)]
        fake.control("cards 3", *moved)
        await source.list_cards()
        report = await source.list_cards()
    assert sorted(card.uuid for card in report.cards) == sorted(card.uuid for card in cards)


WITHOUT_THE_FIRST = ("cards 2", *(f"set uuid {slot} GCU-UUID-{slot + 1:04d}" for slot in range(2)))
"""Card 0 of three has left: the library counts the others from 0 again."""


async def test_cards_that_a_library_renumbered_are_not_read_at_their_old_places(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 3") as (fake, source, _):
        cards = (await source.list_cards()).cards
        fake.control(*WITHOUT_THE_FIRST, "set healthy 1 0")  # card 2 is sick, at the place that card 1 had
        assert source.worker_pid is not None
        os.kill(source.worker_pid, signal.SIGKILL)
        await source.wait_event(0.0)  # it finds the process dead, and blames no card
        for ask in (source.health(cards[1]), source.use(cards[1]), source.link_level(cards[1], cards[2])):
            with pytest.raises(CardMovedError, match=r"card 1 \(GCU-UUID-0001\) is elsewhere"):
                await ask
        second, third = (await source.list_cards()).cards
        assert (second.uuid, third.uuid) == (cards[1].uuid, cards[2].uuid)
        assert [(await source.health(card)).healthy for card in (second, third)] == [True, False]
        assert (await source.use(second)).memory_used_bytes == 1 << 30


async def test_a_card_that_is_only_remembered_is_neither_anothers_health_nor_a_second_card(tmp_path: Path) -> None:
    async with worker(tmp_path, "cards 3") as (fake, source, _):
        cards = (await source.list_cards()).cards
        fake.control(*WITHOUT_THE_FIRST, "fail EfmlGetDevInfo 0 254")
        assert {card.uuid for card in (await source.list_cards()).cards} == {cards[0].uuid, cards[2].uuid}
        reading = await source.health(cards[0])  # it has left, and card 1 has its place
        assert not reading.healthy
        assert reading.reason.startswith("EfmlGetDevInfo failed")
        fake.control(*WITHOUT_THE_FIRST, "fail EfmlGetDevInfo 1 254")
        assert [card.uuid for card in (await source.list_cards()).cards] == [cards[1].uuid, cards[2].uuid]
        fake.control("cards 2", "set uuid 0 GCU-UUID-0002", "fail EfmlGetDevInfo 1 254")
        assert [card.uuid for card in (await source.list_cards()).cards] == [cards[2].uuid]
