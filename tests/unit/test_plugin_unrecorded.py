"""What the kubelet gave out counts, also for static pods and requests that we refuse; mirrors count for nothing."""

from __future__ import annotations

import pytest

from gcushare.core.cards import UnrecordedHolder
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.reconciler import CHANGING_PERIOD_S
from gcushare.device_plugin.pods.unrecorded import OTHERS, PATIENCE_S, UnrecordedHolders
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARD_POLICY, CARDS
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import DeviceIds, device_ids
from gcushare.wire.nodes import MAX_UNRECORDED
from gcushare.wire.objects import Pod
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.unit.node_agent_rig import World, checkpoint, reconciler_of, write_due
from tests.unit.plugin_pods import (
    COUNT,
    MEMORY,
    WHOLE,
    bound,
    ended,
    in_use,
    mirror,
    pod,
    reconcile,
    store_of,
    waiting,
    whole_pod,
    with_more,
    written,
)


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(bound("a", {MEMORY: "12", COUNT: "2"}), id="two cards counted"),
        pytest.param(bound("a", {MEMORY: "12"}, annotations={CARDS: "5"}), id="not to be divided"),
        pytest.param(bound("a", {MEMORY: "12"}, annotations={CARDS: "none"}), id="no number of cards"),
        pytest.param(bound("a", {MEMORY: "12"}, annotations={CARD_POLICY: "mine"}), id="no policy of ours"),
    ],
)
def test_a_pod_that_would_have_been_refused_is_recorded_with_what_the_kubelet_gave_it(refused: Pod) -> None:
    store = store_of(refused, memory={"d/a": {"c0": {1: 12}}})
    store.find_unrecorded(0.0)
    assert store.held_units(SIZES) == {1: 12}
    assert [(write.pod.name, write.cards) for write in store.writes({0: "u0", 1: "u1"}, SIZES, 1)] == [("a", (1,))]
    assert [each.pod.name for each in store.unreadable] == ["a"], "and why it would have been refused is still reported"
    assert store.unrecorded.lasting(PATIENCE_S) == (UnrecordedHolder(pod="d/a", units={1: 12}),), "until it is written"
    store.pod_applied(with_more(refused, {ENFLAME.record.card_index: "1"}))
    assert store.unrecorded.lasting(PATIENCE_S) == ()


def test_what_no_record_can_tell_is_counted_at_once_and_published_when_it_lasts() -> None:
    store = store_of(bound("both", {MEMORY: "4", WHOLE: "1"}))
    assert store.entries == {}
    reconcile(store, {"d/both": {"c0": {0: 4}}, "d/unseen": {"c0": {0: 2}, "c1": {0: 1}}}, {"uid-both": {"c0": {1: 1}}})
    store.find_unrecorded(10.0)
    assert store.held_units(SIZES) == {0: 7, 1: 16}
    assert store.users_of(1, whole=True) == ["d/both"]
    assert store.unrecorded.is_young(10.0 + PATIENCE_S - 0.1)
    assert store.unrecorded.lasting(10.0 + PATIENCE_S - 0.1) == ()
    assert store.unrecorded.lasting(10.0 + PATIENCE_S) == (
        UnrecordedHolder(pod="d/both", units={0: 4}, whole=(1,)),
        UnrecordedHolder(pod="d/unseen", units={0: 3}),
    )
    assert not store.unrecorded.is_young(10.0 + PATIENCE_S)
    assert CHANGING_PERIOD_S >= PATIENCE_S, "the next look publishes it"


def test_a_pod_that_comes_or_ends_is_no_unrecorded_holder_any_more() -> None:
    store = store_of(pod("c", 4, card=0))
    reconcile(store, {"d/a": {"c0": {0: 4}}, "d/b": {"c0": {0: 4}}, "d/c": {"c0": {0: 4}}})
    store.find_unrecorded(0.0)
    assert set(store.unrecorded.now) == {"d/a", "d/b"}
    store.pod_applied(pod("a", 4))
    assert (set(store.unrecorded.now), store.held_units(SIZES)) == ({"d/b"}, {0: 12})
    store.pod_deleted("uid-c", is_over=True)
    store.find_unrecorded(1.0)
    assert set(store.unrecorded.now) == {"d/b"}, "the kubelet may show a pod that has ended for a while"
    store.pod_deleted("uid-a")
    store.find_unrecorded(2.0)
    assert set(store.unrecorded.now) == {"d/b"}, "one deleted by force closes its card instead"
    reconcile(store, {})
    store.find_unrecorded(3.0)
    assert store.held_units(SIZES) == {}


def test_an_unreadable_pod_that_ends_holds_nothing_any_more() -> None:
    store = store_of(bound("both", {MEMORY: "4", WHOLE: "1"}))
    reconcile(store, {"d/both": {"c0": {0: 4}}, "d/other": {"c0": {1: 4}}})
    store.find_unrecorded(0.0)
    assert store.pod_deleted("uid-both", is_over=True)
    assert set(store.unrecorded.now) == {"d/other"}
    store.find_unrecorded(1.0)
    assert set(store.unrecorded.now) == {"d/other"}


def test_units_and_whole_cards_of_unrecorded_holders_are_counted_apart() -> None:
    memory, whole = {"d/a": {"c0": {0: 4}}, "d/x": {"c0": {0: 2}}}, {"d/w": {"c0": {1: 1}}, "d/y": {"c0": {2: 1}}}
    store = store_of(pod("a", 4, card=0), whole_pod("w", 1, "1"), memory=memory, whole=whole)
    store.find_unrecorded(0.0)
    sizes = {0: 16, 1: 8, 2: 32}
    assert store.held_units(sizes) == {0: 6, 1: 8, 2: 32}
    assert store.unrecorded_units(sizes) == {0: 2, 2: 32}
    assert (store.held_units(), store.unrecorded_units()) == ({0: 6, 1: 0, 2: 0}, {0: 2, 2: 0})
    users = [store.users_with_units(index, size) for index, size in sizes.items()]
    assert users == [{"d/a": 4, "d/x": 2}, {"d/w": 8}, {"d/y": 32}]
    assert [store.users_of(index, whole=False) for index in sizes] == [["d/a", "d/x"], [], []]
    assert [store.users_of(index, whole=True) for index in sizes] == [[], ["d/w"], ["d/y"]]


def test_a_holder_is_known_since_the_first_read_that_shows_it() -> None:
    found, holder = UnrecordedHolders(), UnrecordedHolder(pod="d/a", units={0: 1})
    found.update({"d/a": holder}, 0.0)
    found.update({"d/a": holder, "d/b": UnrecordedHolder(pod="d/b", units={0: 2})}, PATIENCE_S)
    assert found.lasting(PATIENCE_S) == (holder,)


def test_of_very_many_holders_the_last_are_added_up() -> None:
    holders = {f"d/{n:03}": UnrecordedHolder(pod=f"d/{n:03}", units={0: 1}, whole=(n % 2 + 1,)) for n in range(200)}
    found = UnrecordedHolders()
    found.update(holders, 0.0)
    published = found.lasting(PATIENCE_S)
    assert len(published) == MAX_UNRECORDED
    assert published[-1].pod == OTHERS
    assert sum(holder.units[0] for holder in published) == 200
    assert published[-1].whole == (1, 2)


HOLDS = UnrecordedHolder(pod="d/mirror", units={0: 4})
SIZES = {0: 16, 1: 16}


def passing_for(plain: Pod, uid: str) -> Pod:
    return with_more(plain, {MIRROR: uid, MACHINE_UID: uid})


def world_of(source: str, name: str, uid: str) -> World:
    """A kubelet whose podresources, or checkpoint, show that a pod holds units of card 0."""
    if source == "checkpoint":
        return World(record=checkpoint({uid: 0}))
    world = World()
    world.hold(name, 0)
    return world


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
    world, store = world_of(source, "real", "uid-real"), store_of(pod("real", 4, card=0), false)
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
    world, store = world_of(source, "mirror", "hash"), store_of(mirror(card=1))
    reconciler = reconciler_of(world, store)
    await reconciler.check()
    await write_due(reconciler)
    assert (world.patched, written(store)) == ([], {})
    assert (store.held_units(), waiting(store)) == ({0: 4}, [])
    assert store.unrecorded.lasting(world.now_s + PATIENCE_S) == (HOLDS,)
    assert store.everyone["uid-mirror"].units_by_card() == {0: 4}
    assert store.cards_in_use(whole=False) == {0}


@pytest.mark.parametrize("order", [1, -1])
def test_a_static_pod_counts_whatever_becomes_of_another_pod_of_its_name(order: int) -> None:
    store, another = store_of(), pod("mirror", 1, card=1, uid="another")
    static, own = device_ids(device_ids_of_card(0, 12)), device_ids(device_ids_of_card(1, 1))

    def read(*held: DeviceIds) -> set[int]:
        found = KubeletAllocations("podresources")
        for ids in held[::order]:
            found.add("d/mirror", "c0", ids)
        store.on_kubelet_read(found)
        store.find_unrecorded(0.0)
        assert store.unrecorded.units(SIZES) == {0: 12}
        return in_use(store)[0]

    store.pod_applied(ended(bound("mirror", uid="asks for nothing")))
    assert read(static) == {0}
    for is_over in (True, False):
        store.pod_applied(another)
        assert read(static, own) == {0, 1}
        store.pod_deleted("another", is_over=is_over)
        store.pod_applied(mirror())
        assert read(static) == ({0} if is_over else {0, 1})


async def test_while_a_kubelet_starts_a_static_pod_goes_on_holding_its_cards() -> None:
    world, store = world_of("podresources", "mirror", "hash"), store_of(mirror())
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
    world, store = world_of("podresources", "mirror", "hash"), store_of(mirror())
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
