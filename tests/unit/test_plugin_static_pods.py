"""Static pods hold what the kubelet shows. Their mirrors count for nothing, because any author may write one."""

from __future__ import annotations

import pytest

from gcushare.core.cards import UnrecordedHolder
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.unrecorded import PATIENCE_S
from gcushare.wire.objects import Pod
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.unit.plugin_pods import in_use, mirror, pod, store_of, waiting, whole_pod, with_more, written
from tests.unit.plugin_records import World, checkpoint, reconciler_of, write_due

HOLDS = UnrecordedHolder(pod="d/mirror", units={0: 4})
SIZES = {0: 16, 1: 16}


def passing_for(plain: Pod, uid: str) -> Pod:
    return with_more(plain, {MIRROR: uid, MACHINE_UID: uid})


@pytest.mark.parametrize(
    "false",
    [
        pytest.param(mirror(card=None), id="without a record"),
        pytest.param(mirror(assigned=False), id="with a record"),
        pytest.param(mirror(), id="assigned"),
        pytest.param(passing_for(whole_pod("mirror", 2, "0,1", assigned=True), "hash"), id="of whole cards"),
        pytest.param(passing_for(pod("mirror", 4, card=None), "uid-real"), id="naming a uid"),
        pytest.param(passing_for(pod("mirror", 4, card=None), "d/real"), id="naming a name"),
    ],
)
@pytest.mark.parametrize("source", ["podresources", "checkpoint"])
async def test_a_false_mirror_holds_nothing_is_given_nothing_and_takes_nothing(false: Pod, source: str) -> None:
    world, real = World(record=checkpoint({"uid-real": 0})), pod("real", 4, card=0)
    if source == "podresources":
        world = World()
        world.hold("real", 0)
    store = store_of(real, false)
    assert waiting(store) == ["real"]
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    await write_due(reconciler)
    assert world.patched == [("real", "0")]
    assert (store.held_units(SIZES), store.promised(), store.promised_whole()) == ({0: 4}, {}, {})
    assert in_use(store) == ({0}, set())
    assert store.unrecorded.now == {}
    assert store.holders() == ["d/real"]


@pytest.mark.parametrize("source", ["podresources", "checkpoint"])
async def test_what_a_static_pod_holds_is_published_under_its_name_without_a_record(source: str) -> None:
    world, store = World(record=checkpoint({"hash": 0})), store_of(mirror(card=1))
    if source == "podresources":
        world = World()
        world.hold("mirror", 0)
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    await write_due(reconciler)
    assert (world.patched, written(store)) == ([], {})
    assert (store.held_units(), waiting(store)) == ({0: 4}, [])
    assert store.unrecorded.lasting(world.now_s + PATIENCE_S) == (HOLDS,)
    assert store.everyone["uid-mirror"].units_by_card() == {0: 4}
    assert store.cards_in_use(whole=False) == {0}


async def test_while_a_kubelet_starts_a_static_pod_goes_on_holding_its_cards() -> None:
    world, store = World(), store_of(mirror())
    world.hold("mirror", 0)
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    world.record, world.checkpoint = KubeletAllocations("podresources"), checkpoint({"hash": 0})
    world.now_s += PATIENCE_S
    await reconciler.check()
    assert store.cards_in_use(whole=False) == {0}
    assert store.unrecorded.lasting(world.now_s) == (HOLDS,), "and the Node says so without a gap"
    store.pod_deleted("uid-mirror")
    await reconciler.check()
    assert store.cards_in_use(whole=False) == frozenset(), "the kubelet deletes a mirror when its pod has ended"


async def test_a_change_of_source_is_no_news_of_a_static_pod() -> None:
    world, store = World(), store_of(mirror())
    world.hold("mirror", 0)
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    store.pod_applied(pod("new", 4, card=0))
    store.on_allocate("uid-new", "c0", {0: 4}, world.now_s)
    world.record = checkpoint({"hash": 0})
    await reconciler.check()
    assert store.pending_allocations == 1, "the static pod's own units confirm no other pod's"


def test_a_mirror_that_ends_or_comes_has_the_kubelet_read() -> None:
    store = store_of()
    assert store.pod_applied(mirror())
    assert not store.pod_applied(mirror())
    assert store.pod_deleted("uid-mirror")
    assert not store.pod_deleted("uid-mirror")
