"""Which units of a closed card stay healthy: all that somebody holds, those too that podresources hides."""

from dataclasses import dataclass, field

import pytest

from gcushare.device_plugin.kubelet.device_list import HeldIds
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from tests.unit.plugin_pods import UNITS, UUIDS, in_use, init_pod, pod, store_of, whole_pod
from tests.unit.plugin_reconcile import reconcile
from tests.unit.plugin_records import World, reconciler_of

FOUR, EIGHT = device_ids_of_card(0, 4), device_ids_of_card(0, 8)


def record_of(source: str = "podresources", **pods: list[str]) -> KubeletAllocations:
    record = KubeletAllocations(source)
    for name, ids in pods.items():
        record.add(f"uid-{name}", "c0", device_ids(ids))
    return record


@dataclass
class Asked:
    """Whose hidden ids were asked for."""

    pods: set[str] = field(default_factory=set)

    def note(self, pods: object) -> None:
        assert isinstance(pods, type({}.keys()))
        self.pods = set(pods)


def held_of(store: PodStore) -> tuple[HeldIds, Asked]:
    asked = Asked()
    return HeldIds(store, asked.note), asked


def test_a_card_with_plain_pods_is_closed_at_once_and_no_checkpoint_is_asked_for() -> None:
    store = store_of(pod("a", 4, card=0), init_pod("elsewhere", 8, 4))
    reconcile(store, {"uid-a": {"c0": {0: 4}}, "uid-elsewhere": {"c0": {1: 4}}})
    held, asked = held_of(store)
    assert held.of_cards(record_of(a=FOUR), frozenset({0})) == {0: frozenset(FOUR)}
    assert asked.pods == set()


def test_a_card_with_a_pod_of_init_containers_is_closed_only_when_all_its_ids_are_known() -> None:
    store = store_of(init_pod("a", 8, 4))
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    held, asked = held_of(store)
    record = record_of(a=FOUR)
    assert held.of_cards(record, frozenset({0, 1})) == {1: frozenset()}
    assert asked.pods == {"uid-a"}
    reported = record_of(a=FOUR)
    reported.add_hidden(record_of("checkpoint", a=EIGHT), asked.pods)
    assert held.of_cards(reported, frozenset({0, 1})) == {0: frozenset(EIGHT), 1: frozenset()}


def test_a_card_of_a_pod_in_doubt_is_closed_only_when_the_kubelet_was_asked_about_it() -> None:
    store = store_of()
    reconcile(store, {})
    store.pod_applied(pod("a", 4, card=0, assigned=True))
    held, _ = held_of(store)
    assert held.of_cards(record_of(), frozenset({0})) == {}
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    assert held.of_cards(record_of(a=FOUR), frozenset({0})) == {0: frozenset(FOUR)}


def test_a_checkpoint_hides_nothing() -> None:
    store = store_of(init_pod("a", 8, 4))
    reconcile(store, {"uid-a": {"init": {0: 8}, "c0": {0: 4}}})
    held, _ = held_of(store)
    assert held.of_cards(record_of("checkpoint", a=EIGHT), frozenset({0})) == {0: frozenset(EIGHT)}


@pytest.mark.parametrize("is_record_away", [False, True], ids=["not shown yet", "record away"])
def test_what_was_handed_out_since_the_record_was_read_is_held(is_record_away: bool) -> None:
    store = store_of(pod("a", 4, card=0))
    reconcile(store, {})
    held, _ = held_of(store)
    record = record_of()
    assert held.of_cards(record, frozenset({0})) == {0: frozenset()}
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0, ids=device_ids(FOUR))
    if is_record_away:
        store.end_pending(1.0, is_readable=False)
    assert held.of_cards(record, frozenset({0, 1})) == {0: frozenset(FOUR), 1: frozenset()}
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    assert held.of_cards(record_of(a=FOUR), frozenset({0})) == {0: frozenset(FOUR)}


async def test_a_look_brings_the_hidden_ids_of_those_that_were_asked_for() -> None:
    world, store = World(), store_of(init_pod("a", 8, 4))
    reconciler = reconciler_of(world, store)
    world.record, world.checkpoint = record_of(a=FOUR), record_of("checkpoint", a=EIGHT)
    await reconciler.check()
    assert (world.read.held_ids(0), world.read.hides_ids_of("uid-a")) == (frozenset(FOUR), True)
    reconciler.want_hidden_ids_of({"uid-a"})
    await reconciler.check()
    assert (world.read.held_ids(0), world.read.hides_ids_of("uid-a")) == (frozenset(EIGHT), False)


@pytest.mark.parametrize("checkpoint", [None, record_of("checkpoint", b=EIGHT)], ids=["unreadable", "not named"])
async def test_hidden_ids_that_no_checkpoint_reports_stay_unknown(checkpoint: KubeletAllocations | None) -> None:
    world, store = World(), store_of(init_pod("a", 8, 4))
    reconciler = reconciler_of(world, store)
    world.record, world.checkpoint = record_of(a=FOUR), checkpoint
    reconciler.want_hidden_ids_of({"uid-a"})
    await reconciler.check()
    assert world.read.hides_ids_of("uid-a")


async def test_whole_cards_of_init_containers_that_are_others_than_planned_stay_known_at_every_look() -> None:
    world, store = World(), store_of(whole_pod("w", 1, "2,3", init=2))
    reconciler = reconciler_of(world, store)
    assert world.record is not None
    world.record.add_whole("d/w", "c0", ["card-5"])
    world.checkpoint = KubeletAllocations("checkpoint")
    world.checkpoint.add_whole("uid-w", "i0", ["card-4", "card-5"])
    world.checkpoint.add_whole("uid-w", "c0", ["card-5"])
    for _ in range(6):
        await reconciler.check()
        assert in_use(store) == (set(), {4, 5})
        assert [write.cards for write in store.writes(UUIDS, UNITS, 1)] == [(4, 5)]
