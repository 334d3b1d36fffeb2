"""Static pods, which the kubelet's checkpoint names by another uid than the API server does their mirrors."""

from __future__ import annotations

from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from tests.unit.plugin_pods import mirror, pod, store_of, waiting, with_annotations
from tests.unit.plugin_reconcile import MIRROR_ANNOTATIONS
from tests.unit.plugin_records import World, reconciler_of, write_due


def checkpoint(**cards: int) -> KubeletAllocations:
    """Four units of a card for each of these uids."""
    record = KubeletAllocations("checkpoint")
    for uid, card in cards.items():
        record.add(uid, "c0", device_ids(device_ids_of_card(card, 4)))
    return record


async def test_with_the_checkpoint_as_source_a_static_pod_holds_its_cards_and_is_matched_to_no_call() -> None:
    world, store = World(record=checkpoint(hash=0)), store_of(mirror())
    await reconciler_of(world, store).check()
    assert (store.held_units(), store.promised()) == ({0: 4}, {})
    store.pod_applied(pod("new", 4, card=1))
    assert waiting(store) == ["new"]
    assert store.promised() == {1: 4}


async def test_a_static_pod_that_comes_after_the_checkpoint_was_read_is_known_by_it() -> None:
    world, store = World(record=checkpoint(hash=0)), store_of()
    await reconciler_of(world, store).check()
    store.pod_applied(mirror(assigned=False))
    assert waiting(store) == []
    assert store.held_units() == {0: 4}


async def test_right_after_a_kubelet_restart_a_static_pods_cards_are_in_use() -> None:
    world, store = World(), store_of(mirror())
    world.hold("mirror", 0)
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    world.record = KubeletAllocations("podresources")
    world.checkpoint = checkpoint(hash=0)
    await reconciler.check()
    assert store.cards_in_use(whole=False) == {0}
    assert waiting(store) == []


async def test_a_change_of_source_is_no_news_of_a_static_pod() -> None:
    world, store = World(), store_of(mirror())
    world.hold("mirror", 0)
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    store.pod_applied(pod("new", 4, card=0))
    store.on_allocate("uid-new", "c0", {0: 4}, world.now_s)
    world.record = checkpoint(hash=0)
    await reconciler.check()
    assert store.pending_allocations == 1, "the static pod's own units confirm no other pod's"


async def test_a_static_pod_that_was_recorded_here_is_counted_once() -> None:
    world, store = World(record=checkpoint(hash=1)), store_of(mirror(card=None))
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    await write_due(reconciler)
    assert world.patched == [("mirror", "1")]
    store.pod_applied(mirror(card=1))
    await reconciler.check()
    assert (store.held_units(), dict(store.unrecorded.now)) == ({1: 4}, {})


async def test_a_uid_on_a_pod_that_is_no_mirror_means_nothing() -> None:
    plain = pod("forged", 4, card=0)
    annotations = {key: text for key, text in MIRROR_ANNOTATIONS.items() if not key.endswith("mirror")}
    world, store = World(record=checkpoint(hash=0)), store_of(with_annotations(plain, annotations))
    await reconciler_of(world, store).check()
    assert waiting(store) == ["forged"]
