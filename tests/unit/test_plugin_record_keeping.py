"""When records are checked and written, against a kubelet and an API server that may not answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from gcushare.core.cards import Card, Inventory, InventoryCard
from gcushare.core.errors import (
    ConflictError,
    DeviceError,
    ForbiddenError,
    GcushareError,
    NotFoundError,
    RetryableError,
)
from gcushare.core.nodes import PodRef
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.kubelet_record import KubeletRecord
from gcushare.device_plugin.pod_book import PodBook, RecordWrite
from gcushare.device_plugin.record_keeping import PATIENCE_S, RESEND_S, RecordKeeper
from gcushare.vendors import ENFLAME
from gcushare.wire.device_ids import device_ids_of_card
from gcushare.wire.device_lists import device_ids
from tests.unit.test_plugin_pod_book import book_of as book_with
from tests.unit.test_plugin_pod_book import pod

CARDS = Inventory(
    unit=parse_memory_unit("1"),
    cards=tuple(InventoryCard(card=Card(index=i, uuid=f"u{i}", memory_bytes=1), units=16) for i in range(2)),
)


@dataclass
class World:
    """The kubelet's record, the API server and the clock, as a test sets them."""

    now_s: float = 100.0
    record: KubeletRecord | None = field(default_factory=lambda: KubeletRecord("podresources"))
    checkpoint: KubeletRecord | None = None
    failure: GcushareError | None = None
    patched: list[tuple[str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    async def fetch(self) -> KubeletRecord:
        if self.record is None:
            raise RetryableError("neither podresources nor a checkpoint")
        return self.record

    def read_checkpoint(self) -> KubeletRecord:
        if self.checkpoint is None:
            raise DeviceError("no checkpoint")
        return self.checkpoint

    async def patch_record(self, pod: PodRef, annotations: Mapping[str, str]) -> None:
        if self.failure is not None:
            raise self.failure
        self.patched.append((pod.name, annotations["enflame.com/gcu-device-id"]))

    def record_written(self, write: RecordWrite) -> None:
        self.told.append(write.pod.name)

    def kubelet_record_read(self, record: KubeletRecord) -> None:
        self.told.append(record.source)

    def hold(self, name: str, card: int, units: int = 4) -> None:
        assert self.record is not None
        self.record.holdings[f"d/{name}"] = {"c0": {card: units}}


def keeper_of(world: World, book: PodBook) -> RecordKeeper:
    keeper = RecordKeeper(book, world, world, world, clock=lambda: world.now_s, wall_clock_ns=lambda: 7)
    keeper.set_inventory(CARDS)
    return keeper


def book_of(*names: str) -> PodBook:
    book = PodBook(ENFLAME)
    for name in names:
        book.apply(pod(name, 4))
    return book


async def test_what_the_kubelet_shows_is_written_once() -> None:
    world, book = World(), book_of("a")
    world.hold("a", 1)
    keeper = keeper_of(world, book)
    assert await keeper.check()
    assert await keeper.write_due()
    assert await keeper.write_due()
    assert (world.patched, world.told) == ([("a", "1")], ["podresources", "a"])
    assert (keeper.counters.writes, keeper.counters.corrections) == (1, 1)


async def test_a_write_whose_echo_never_comes_is_sent_again_after_a_while() -> None:
    world, book = World(), book_of("a")
    world.hold("a", 0)
    keeper = keeper_of(world, book)
    await keeper.check()
    await keeper.write_due()
    world.now_s += RESEND_S + 1
    await keeper.write_due()
    assert world.patched == [("a", "0")] * 2


@pytest.mark.parametrize(
    ("failure", "is_done"),
    [
        pytest.param(RetryableError("away"), False, id="away"),
        pytest.param(ForbiddenError("no rights"), False, id="no rights"),
        pytest.param(NotFoundError("gone"), True, id="gone"),
        pytest.param(ConflictError("another uid"), True, id="another pod of that name"),
    ],
)
async def test_a_failed_write_is_due_again_unless_the_pod_is_gone(failure: GcushareError, is_done: bool) -> None:
    world, book = World(failure=failure), book_of("a")
    world.hold("a", 0)
    keeper = keeper_of(world, book)
    await keeper.check()
    assert await keeper.write_due() is is_done
    world.failure = None
    await keeper.write_due()
    assert world.patched == [("a", "0")]


async def test_with_no_kubelets_record_an_allocation_is_believed_after_some_patience() -> None:
    world, book = World(record=None), book_of("a")
    keeper = keeper_of(world, book)
    book.note_allocated("uid-a", "c0", {0: 4}, world.now_s)
    assert not await keeper.check()
    await keeper.write_due()
    assert world.patched == []
    world.now_s += PATIENCE_S + 0.1
    await keeper.check()
    await keeper.write_due()
    assert world.patched == [("a", "0")]
    assert "neither podresources nor a checkpoint" in keeper.problem


async def test_an_allocation_that_a_readable_record_never_shows_is_dropped() -> None:
    world, book = World(), book_of("a")
    keeper = keeper_of(world, book)
    book.note_allocated("uid-a", "c0", {0: 4}, world.now_s)
    world.now_s += PATIENCE_S + 0.1
    await keeper.check()
    await keeper.write_due()
    assert world.patched == []
    assert [candidate.pod.name for candidate in book.candidates()] == ["a"]


async def test_nothing_is_written_before_the_cards_are_known() -> None:
    world, book = World(), book_of("a")
    world.hold("a", 0)
    keeper = RecordKeeper(book, world, world, world, clock=lambda: 0.0, wall_clock_ns=lambda: 7)
    await keeper.check()
    assert await keeper.write_due()
    assert world.patched == []


async def test_exchanged_cards_of_waiting_pods_are_written_when_the_batch_is_over() -> None:
    world, book = World(), PodBook(ENFLAME)
    book.apply(pod("a", 4, card=0))
    book.apply(pod("b", 4, card=1))
    keeper = keeper_of(world, book)
    keeper.note_allocation()
    world.hold("b", 0)
    await keeper.check()
    await keeper.write_due()
    assert world.patched == [("b", "0")]
    world.now_s += 1.0
    await keeper.write_due()
    assert world.patched == [("b", "0"), ("a", "1")]


async def test_a_kubelet_that_has_just_started_shows_less_than_it_gave_out_and_its_checkpoint_is_asked() -> None:
    world, book = World(), book_with(pod("a", 4, card=0), pod("b", 4, card=1, assigned=True), pod("c", 4, card=1))
    keeper = keeper_of(world, book)
    world.hold("a", 0)
    await keeper.check()
    assert book.held_units() == {0: 4}
    world.record = KubeletRecord("podresources")
    world.checkpoint = KubeletRecord("checkpoint")
    for uid, card in (("uid-a", 0), ("uid-b", 1), ("uid-c", 1)):
        world.checkpoint.add(uid, "c0", device_ids(device_ids_of_card(card, 4)))
    await keeper.check()
    assert book.held_units() == {0: 4, 1: 4}, "what was known, and what its record says; the third was never confirmed"
    assert world.record.held_ids(0) == frozenset(device_ids_of_card(0, 4))
    assert book.cards_in_use(whole=False) == {0, 1}


async def test_a_pod_that_only_claims_to_hold_a_card_gets_none_from_the_checkpoint() -> None:
    world, book = World(), book_with(pod("forged", 4, card=0, assigned=True))
    world.checkpoint = KubeletRecord("checkpoint")
    await keeper_of(world, book).check()
    assert book.held_units() == {}


async def test_without_a_checkpoint_what_the_kubelet_shows_is_taken_and_the_lack_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, book = World(), book_with(pod("a", 4, card=0, assigned=True))
    assert await keeper_of(world, book).check()
    assert "the kubelet shows less than it gave out" in caplog.text
