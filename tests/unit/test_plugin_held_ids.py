"""Which units of a closed card stay healthy: all that somebody holds, those too that podresources hides."""

import pytest

from gcushare.device_plugin.kubelet.device_list import HeldIds
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from tests.unit.plugin_pods import UNITS, UUIDS, in_use, init_pod, pod, reconcile, store_of, whole_pod
from tests.unit.plugin_records import World, reconciler_of

FOUR, EIGHT = device_ids_of_card(0, 4), device_ids_of_card(0, 8)


def record_of(source: str = "podresources", **pods: list[str]) -> KubeletAllocations:
    record = KubeletAllocations(source)
    for name, ids in pods.items():
        record.add(f"uid-{name}", "c0", device_ids(ids))
    return record


async def test_a_card_of_a_pod_with_init_containers_is_closed_only_when_the_checkpoint_has_shown_all_its_ids() -> None:
    world, store = World(), store_of(pod("b", 4, card=1), init_pod("a", 8, 4))
    reconciler, held = reconciler_of(world, store), HeldIds(store)
    world.record = KubeletAllocations("podresources")
    for name, card in (("a", 0), ("b", 1)):
        world.record.add(f"d/{name}", "c0", device_ids(device_ids_of_card(card, 4)))
    of_b = frozenset(device_ids_of_card(1, 4))
    await reconciler.check()
    assert held.of_cards(world.read, frozenset({0, 1})) == {1: of_b}, "no checkpoint can be read"
    world.checkpoint = KubeletAllocations("checkpoint")
    world.checkpoint.add("uid-a", "i0", device_ids(EIGHT))
    await reconciler.check()
    world.checkpoint = None
    await reconciler.check()
    assert held.of_cards(world.read, frozenset({0, 1})) == {0: frozenset(EIGHT), 1: of_b}


def test_a_card_of_a_pod_in_doubt_is_closed_only_when_the_kubelet_was_asked_about_it() -> None:
    store = store_of()
    reconcile(store, {})
    store.pod_applied(pod("a", 4, card=0, assigned=True))
    held = HeldIds(store)
    assert held.of_cards(record_of(), frozenset({0})) == {}
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    assert held.of_cards(record_of(a=FOUR), frozenset({0})) == {0: frozenset(FOUR)}


@pytest.mark.parametrize("is_record_away", [False, True], ids=["not shown yet", "record away"])
def test_what_was_handed_out_since_the_record_was_read_is_held(is_record_away: bool) -> None:
    store = store_of(pod("a", 4, card=0))
    reconcile(store, {})
    held = HeldIds(store)
    record = record_of()
    assert held.of_cards(record, frozenset({0})) == {0: frozenset()}
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0, ids=device_ids(FOUR))
    if is_record_away:
        store.end_pending(1.0, is_readable=False)
    assert held.of_cards(record, frozenset({0, 1})) == {0: frozenset(FOUR), 1: frozenset()}
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    assert held.of_cards(record_of(a=FOUR), frozenset({0})) == {0: frozenset(FOUR)}


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
