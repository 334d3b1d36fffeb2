"""What the kubelet gave out counts, for every pod and whatever we make of its request."""

from __future__ import annotations

import pytest

from gcushare.core.cards import UnrecordedHolder
from gcushare.device_plugin.pods.reconciler import CHANGING_PERIOD_S
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.pods.unrecorded import OTHERS, PATIENCE_S, UnrecordedHolders
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARD_POLICY, CARDS
from gcushare.wire.nodes import MAX_UNRECORDED
from gcushare.wire.objects import Pod
from tests.unit.plugin_pods import COUNT, MEMORY, WHOLE, bound, pod, reconcile, store_of, whole_pod, with_more

SIZES = {0: 16, 1: 16}


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
    store = PodStore(ENFLAME)
    store.pod_applied(refused)
    reconcile(store, {"d/a": {"c0": {1: 12}}})
    store.find_unrecorded(0.0)
    assert store.held_units(SIZES) == {1: 12}
    assert [(write.pod.name, write.cards) for write in store.writes({0: "u0", 1: "u1"}, SIZES, 1)] == [("a", (1,))]
    assert [each.pod.name for each in store.unreadable] == ["a"], "and why it would have been refused is still reported"
    assert store.unrecorded.lasting(PATIENCE_S) == (UnrecordedHolder(pod="d/a", units={1: 12}),), "until it is written"
    store.pod_applied(with_more(refused, {ENFLAME.record.card_index: "1"}))
    assert store.unrecorded.lasting(PATIENCE_S) == ()


def test_what_no_record_can_tell_is_counted_at_once_and_published_when_it_lasts() -> None:
    both = bound("both", {MEMORY: "4", WHOLE: "1"})
    store = PodStore(ENFLAME)
    store.pod_applied(both)
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
    store = PodStore(ENFLAME)
    store.pod_applied(pod("c", 4, card=0))
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
    store = store_of(pod("a", 4, card=0), whole_pod("w", 1, "1"))
    reconcile(
        store,
        {"d/a": {"c0": {0: 4}}, "d/x": {"c0": {0: 2}}},
        {"d/w": {"c0": {1: 1}}, "d/y": {"c0": {2: 1}}},
    )
    store.find_unrecorded(0.0)
    sizes = {0: 16, 1: 8, 2: 32}
    assert store.held_units(sizes) == {0: 6, 1: 8, 2: 32}
    assert store.unrecorded_units(sizes) == {0: 2, 2: 32}
    assert (store.held_units(), store.unrecorded_units()) == ({0: 6, 1: 0, 2: 0}, {0: 2, 2: 0})
    assert [store.users_with_units(index, sizes[index]) for index in sizes] == [
        {"d/a": 4, "d/x": 2},
        {"d/w": 8},
        {"d/y": 32},
    ]
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
