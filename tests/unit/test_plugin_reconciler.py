"""When the kubelet's allocations is asked, and what follows from it, against a kubelet that may not answer."""

from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.reconciler import PATIENCE_S
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from tests.unit.plugin_pods import pod
from tests.unit.plugin_pods import store_of as book_with
from tests.unit.plugin_records import World, checkpoint, reconciler_of, store_of, write_due


async def test_with_no_kubelets_record_an_allocation_counts_after_some_patience() -> None:
    world, store = World(record=None), store_of("a")
    reconciler = reconciler_of(world, store)
    store.on_allocate("uid-a", "c0", {0: 4}, world.now_s)
    assert not await reconciler.check()
    await write_due(reconciler)
    assert world.patched == []
    world.now_s += PATIENCE_S + 0.1
    await reconciler.check()
    await write_due(reconciler)
    assert world.patched == [("a", "0")]
    assert "neither podresources nor a checkpoint" in reconciler.problem


async def test_an_allocation_that_a_readable_record_never_shows_is_dropped() -> None:
    world, store = World(), store_of("a")
    reconciler = reconciler_of(world, store)
    store.on_allocate("uid-a", "c0", {0: 4}, world.now_s)
    world.now_s += PATIENCE_S + 0.1
    await reconciler.check()
    await write_due(reconciler)
    assert world.patched == []
    assert [candidate.pod.name for candidate in store.candidates()] == ["a"]


async def test_a_kubelet_that_has_just_started_shows_less_than_it_gave_out_and_its_checkpoint_is_asked() -> None:
    world, store = World(), book_with(pod("a", 4, card=0), pod("b", 4, card=1, assigned=True), pod("c", 4, card=1))
    reconciler = reconciler_of(world, store)
    world.hold("a", 0)
    await reconciler.check()
    assert store.held_units() == {0: 4}
    world.record = KubeletAllocations("podresources")
    world.checkpoint = checkpoint({"uid-a": 0, "uid-b": 1, "uid-c": 1})
    await reconciler.check()
    assert store.held_units() == {0: 4, 1: 4}, "what was known, and what its record says; the third was never confirmed"
    assert world.read.held_ids(0) == frozenset(device_ids_of_card(0, 4))
    assert store.cards_in_use(whole=False) == {0, 1}


async def test_a_pod_that_only_claims_to_hold_a_card_gets_none_from_the_checkpoint() -> None:
    world, store = World(), book_with(pod("forged", 4, card=0, assigned=True))
    world.checkpoint = checkpoint({})
    await reconciler_of(world, store).check()
    assert store.held_units() == {}
