"""What the plugin knows about its pods, for every order in which the kubelet may have served them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.matching import match
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.annotation_diff import compute_write
from gcushare.device_plugin.pods.pod import PodState
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARD_MODE, CARD_UUID, RECORDED_UID, UNITS_BY_CARD
from tests.builders import present
from tests.unit.plugin_pods import (
    COUNT,
    MEMORY,
    UNITS,
    UUIDS,
    bound,
    ended,
    in_use,
    pod,
    reconcile,
    record_of,
    store_of,
    whole_pod,
    with_annotations,
    with_more,
    written,
)


def test_a_pod_that_was_torn_over_two_cards_says_how_much_it_has_of_each() -> None:
    store = store_of(pod("a", 2, 3, card=0), memory={"d/a": {"c0": {0: 2}, "c1": {3: 3}}})
    (write,) = store.writes(UUIDS, UNITS, 1)
    assert record_of(write).units_by_card(5) == {0: 2, 3: 3}
    store.on_record_written(write)
    store.pod_applied(with_annotations(pod("a", 2, 3), write.annotations))
    assert written(store) == {}
    store.pod_applied(with_annotations(pod("a", 2, 3), {**write.annotations, UNITS_BY_CARD: "4,1"}))
    (again,) = store.writes(UUIDS, UNITS, 2)
    assert (again.annotations[UNITS_BY_CARD], again.corrected_from) == ("2,3", ())


def test_a_wrong_guess_frees_the_pod_that_it_was_made_for() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=1))
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    reconcile(store, {})
    assert ([c.pod.name for c in store.candidates()], written(store)) == (["b"], {}), "the guess is young"
    reconcile(store, {"d/b": {"c0": {0: 4}}})
    assert [c.pod.name for c in store.candidates()] == ["a"]
    assert store.pending_allocations == 0
    assert written(store) == {"b": ((0,), (1,))}, "the record of a pod that waits stays"


def test_pods_of_equal_requests_change_places_so_that_each_still_fits_as_planned() -> None:
    store = store_of(pod("a", 8, card=0), pod("b", 8, card=1), pod("c", 4, card=1), memory={"d/b": {"c0": {0: 8}}})
    assert {c.pod.name: c.card_indexes for c in store.candidates()} == {"a": (1,), "c": (1,)}


def test_a_running_pod_that_the_kubelet_forgot_keeps_its_record() -> None:
    store = store_of(pod("forgotten", 4, card=0, assigned=True), pod("new", 4, card=1), memory={})
    assert present(match(store.candidates(), 4, {0: 16, 1: 16})).pod.name == "new"
    reconcile(store, {"d/new": {"c0": {0: 4}}})
    assert written(store) == {"new": ((0,), (1,))}


@pytest.mark.parametrize("is_echoed", [True, False])
def test_a_corrected_pod_that_the_kubelet_forgot_keeps_its_correction(*, is_echoed: bool) -> None:
    store = store_of(pod("a", 4, card=0), memory={"d/a": {"c0": {1: 4}}})
    (write,) = store.writes(UUIDS, UNITS, 1)
    store.on_record_written(write)
    if is_echoed:
        store.pod_applied(with_annotations(pod("a", 4), write.annotations))
    reconcile(store, {})
    assert written(store) == {}
    assert [c.card_indexes for c in store.candidates()] == [(1,)]


def test_a_pod_planned_next_to_a_corrected_one_does_not_change_places_with_it() -> None:
    store = store_of(pod("a", 4, card=0))
    shown = {"d/a": {"c0": {1: 4}}}
    reconcile(store, shown)
    (write,) = store.writes(UUIDS, UNITS, 1)
    store.on_record_written(write)
    store.pod_applied(with_annotations(pod("a", 4), write.annotations))
    store.pod_applied(pod("b", 4, card=1))
    reconcile(store, shown)
    assert written(store) == {}
    assert [c.card_indexes for c in store.candidates()] == [(1,)]


def test_a_pod_that_the_kubelet_forgot_and_admits_again_is_recorded_where_it_is() -> None:
    store = store_of(pod("forgotten", 4, card=0, assigned=True), memory={})
    matched = present(match(store.candidates(), 4, {0: 16, 1: 16}))
    assert (matched.pod.name, matched.card_indexes) == ("forgotten", (0,))
    reconcile(store, {"d/forgotten": {"c0": {1: 4}}})
    assert written(store) == {"forgotten": ((1,), (0,))}


def test_whose_units_were_handed_out_is_no_pod_that_the_kubelet_forgot() -> None:
    store = store_of(pod("a", 4, card=1), pod("right", 4, card=1), pod("z", 4, card=1, assigned=True), memory={})
    store.on_allocate("uid-right", "c0", {1: 4}, 0.0)
    reconcile(store, {"d/right": {"c0": {0: 4}}})
    displaced = {each.pod.name for each in store.candidates() if each.is_displaced}
    assert displaced == {"a"}, "z is younger, and runs"


@pytest.mark.parametrize(("is_readable", "left"), [(True, ["a"]), (False, [])])
def test_a_guess_that_is_never_shown_ends(is_readable: bool, left: list[str]) -> None:
    store = store_of(pod("a", 4))
    store.on_allocate("uid-a", "c0", {0: 4}, 5.0)
    store.end_pending(5.0, is_readable=is_readable)
    assert store.pending_allocations == 1
    store.end_pending(6.0, is_readable=is_readable)
    assert [c.pod.name for c in store.candidates()] == left
    assert ("a" in written(store)) is not is_readable


def test_a_pod_without_a_record_gets_all_of_it() -> None:
    store = store_of(pod("a", 4, card=None), whole_pod("w", 2), pod("unknown", 2, card=None))
    reconcile(store, {"d/a": {"c0": {3: 4}}, "d/unknown": {"c0": {9: 2}}}, {"d/w": {"c0": {1: 1, 2: 1}}})
    by_name = {write.pod.name: write for write in store.writes(UUIDS, {1: 16, 2: 32, 3: 16}, 99)}
    keys, times = ENFLAME.record, {ENFLAME.record.assigned: "true", ENFLAME.record.assign_time: "99"}

    def record(name: str, cards: str, card_units: str, pod_units: str, uuids: str) -> dict[str, str]:
        amounts = {keys.card_index: cards, keys.card_units: card_units, keys.pod_units: pod_units}
        return amounts | times | {CARD_UUID: uuids, RECORDED_UID: f"uid-{name}"}

    assert by_name["a"].annotations == record("a", "3", "16", "4", "uuid-3")
    assert by_name["w"].annotations == record("w", "1,2", "32", "48", "uuid-1,uuid-2") | {CARD_MODE: "whole"}
    assert by_name["unknown"].annotations == record("unknown", "9", "0", "2", ""), "the card left the inventory"
    assert all(write.placed_here and not write.corrected_from for write in by_name.values())
    gone = present(compute_write(store.entries["uid-w"], ENFLAME, {}, {}, 1))
    assert (gone.annotations[keys.card_units], gone.annotations[keys.pod_units]) == ("0", "0")


REFUSED = {"gcushare.io/cards": "none"}


@pytest.mark.parametrize(
    ("record", "asked", "cards", "reason"),
    [
        pytest.param({}, {"gcushare.io/cards": "2"}, 2, "asks for enflame.com/gcu-count: 2", id="options"),
        pytest.param({}, REFUSED, 1, "gcushare.io/cards", id="unreadable options"),
        pytest.param({"enflame.com/gcu-device-id": "0"}, REFUSED, 1, "asks for enflame.com/gcu-count: 2", id="record"),
        pytest.param({"enflame.com/gcu-device-id": "0,1"}, REFUSED, 2, "enflame.com/gcu-count: 2", id="of two cards"),
        pytest.param({"enflame.com/gcu-device-id": "0,1,2"}, {}, 1, "enflame.com/gcu-count: 2", id="not divisible"),
    ],
)
def test_a_bound_pod_that_would_be_refused_is_read_by_its_record_and_else_by_its_options(
    record: dict[str, str], asked: dict[str, str], cards: int, reason: str
) -> None:
    store = store_of(bound("a", {MEMORY: 4, COUNT: 2}, annotations=record | asked))
    assert [each.request.cards.cards for each in store.entries.values()] == [cards]
    assert [reason in each.reason for each in store.unreadable] == [True], store.unreadable


def test_options_that_were_added_after_the_cards_were_chosen_are_not_read() -> None:
    store = store_of(with_more(pod("a", 4, card=0), REFUSED))
    assert (store.unreadable, store.promised()) == ((), {0: 4})


def test_pods_that_ended_before_they_were_seen_hold_nothing_and_one_of_the_same_name_does() -> None:
    store = store_of(ended(pod("a", 4)), ended(pod("b", 4)))
    shown: dict[str, dict[str, dict[int, int]]] = {"d/a": {"c0": {0: 4}}, "uid-b": {"c0": {1: 4}}}
    reconcile(store, shown)
    assert in_use(store) == (set(), set())
    assert store.pod_applied(pod("a", 4, card=None, uid="new"))
    assert in_use(store) == ({0}, set())
    assert not store.pod_deleted("uid-c")


def test_a_kubelet_that_is_read_in_another_way_for_a_while_brings_back_no_pod_that_has_ended() -> None:
    store = store_of(pod("a", 4), memory={"d/a": {"c0": {0: 4}}})
    store.pod_applied(ended(pod("a", 4)))
    for key in ("uid-a", "d/a", "", "uid-a"):
        source = "checkpoint" if key == "uid-a" else "podresources"
        store.on_kubelet_read(KubeletAllocations(source, {key: {"c0": {0: 4}}} if key else {}))
        assert in_use(store) == (set(), set())


def test_a_pod_without_cards_is_neither_kept_nor_unreadable() -> None:
    store = PodStore(ENFLAME)
    assert not store.pod_applied(with_annotations(pod("a"), {"enflame.com/gcu-device-id": "x"}))
    assert (store.entries, store.unreadable) == ({}, ())


def test_the_kubelet_confirms_the_allocation_that_was_made_for_the_container_it_shows() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=0))
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    assert store.unconfirmed_units() == {0: 4}
    store.on_allocate("uid-b", "c0", {0: 4}, 1.0)
    assert store.missing_from(frozenset()) == [], "an allocation that is not confirmed is missing nowhere"
    reconcile(store, {"d/b": {"c0": {0: 4}}})
    assert store.pending_allocations == 1
    store.end_pending(0.5, is_readable=True)
    assert (store.pending_allocations, store.unconfirmed_units()) == (0, {})


def test_the_youngest_pod_is_displaced_by_units_that_went_to_another() -> None:
    oldest = with_more(pod("a", 4, card=0), {ENFLAME.record.assign_time: "9"})
    store = store_of(oldest, *(pod(name, 4, card=0) for name in "bc"), pod("new", 2, card=None))
    assert [each.assume_time_ns for each in store.candidates()] == [9, 7, 7, 0]
    store.on_allocate("uid-c", "c0", {0: 4}, 0.0)
    assert {each.state for each in store.entries.values()} == {PodState.WAITING, PodState.UNCONFIRMED}
    reconcile(store, {"d/c": {"c0": {1: 4}}})
    states = {uid: entry.state for uid, entry in store.entries.items()}
    assert (states["uid-a"], states["uid-b"]) == (PodState.DISPLACED, PodState.WAITING)


def test_an_exchange_that_enables_another_is_followed_by_it_and_outlasts_older_records() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=1), pod("c", 4, card=2))
    reconcile(store, {"d/a": {"c0": {1: 4}}, "d/b": {"c0": {2: 4}}})
    entry = store.entries["uid-c"]
    assert entry.promise == (0,)
    store.pod_applied(pod("c", 4, card=2))
    assert entry.promise == (0,), "the watch shows the record of before"


def test_a_pods_units_are_those_of_its_containers_until_all_are_served() -> None:
    store = store_of(pod("a", 2, 3, 1, card=0), whole_pod("w", 2, "1,2"), pod("new", 4, card=None))
    entry, whole = store.entries["uid-a"], store.entries["uid-w"]
    assert (store.promised_whole(), entry.entitled_units()) == ({1: "uid-w", 2: "uid-w"}, {0: 6})
    assert (whole.entitled_units(), store.entries["uid-new"].entitled_units()) == ({}, {})
    reconcile(store, {"d/a": {"c0": {0: 2}}})
    assert (entry.units_by_card(), entry.entitled_units()) == ({0: 2}, {0: 6})
    reconcile(store, {"d/a": {"c0": {0: 2}, "c1": {0: 3}, "c2": {3: 1}}}, {"d/w": {"c0": {1: 1, 2: 1}}})
    assert (entry.units_by_card(), entry.entitled_units()) == ({0: 5, 3: 1}, {})
    assert (whole.units_by_card(), whole.units_by_card({1: 16})) == ({1: 0, 2: 0}, {1: 16, 2: 0})
    assert (store.promised_whole(), store.users_of(1, whole=True)) == ({}, ["d/w"])


def test_whole_cards_of_an_init_container_stay_planned_for_the_pod() -> None:
    store = store_of(whole_pod("a", 1, "1,2", init=2), whole_pod("b", 1, "3"))
    assert store.users_of(1, whole=True) == [], "a pod that waits uses no card"
    store.on_allocate("uid-a", "i0", {2: 1}, 0.0, whole=True)
    (first, second) = store.candidates(whole=True)
    assert (first.card_indexes, second.card_indexes) == ((1, 2), (3,))


def test_promises_are_what_records_name_and_no_one_holds_yet() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 2, 3, card=0), pod("c", 4, card=None))
    assert store.promised() == {0: 9}
    store.on_allocate("uid-b", "c0", {0: 2}, 0.0)
    assert store.promised() == {0: 4}


def serve(
    store: PodStore, units: int, free: dict[int, int], truth: str, holdings: dict[str, dict[str, dict[int, int]]]
) -> None:
    """One admission as the kubelet double does it: our preference decides the card, the kubelet knows the pod."""
    candidate = present(match(store.candidates(), units, free))
    card = next(c for c in (*candidate.card_indexes, *free) if free[c] >= units)
    free[card] -= units
    store.on_allocate(candidate.pod.uid, candidate.next_container, {card: units}, 0.0)
    holdings.setdefault(f"d/{truth}", {})[f"c{len(holdings.get(f'd/{truth}', {}))}"] = {card: units}


@pytest.mark.slow
@given(
    st.randoms(use_true_random=False), st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=12), st.integers(1, 4)
)
def test_any_order_of_admission_ends_in_true_records(rng: random.Random, sizes: list[int], look_every: int) -> None:
    free = dict(UNITS)
    planned = dict(UNITS)
    pods = []
    for number, units in enumerate(sizes):
        card = next(index for index in planned if planned[index] >= units)
        planned[card] -= units
        pods.append(pod(f"p{number}", units, card=card))
    store = store_of(*pods)
    holdings: dict[str, dict[str, dict[int, int]]] = {}
    order = list(enumerate(sizes))
    rng.shuffle(order)
    for step, (number, units) in enumerate(order):
        serve(store, units, free, f"p{number}", holdings)
        if step % look_every == 0:
            reconcile(store, holdings)
    reconcile(store, holdings)
    assert store.pending_allocations == 0
    assert store.candidates() == []
    truth = {each.metadata.name: tuple(holdings[f"d/{each.metadata.name}"]["c0"]) for each in pods}
    assert {name: cards for name, (cards, _) in written(store).items()} == truth
    assert sum(store.held_units().values()) == sum(sizes)
    assert all(amount >= 0 for amount in free.values())


def test_a_call_that_may_be_for_a_pods_second_container_waits_for_the_record() -> None:
    store = store_of(pod("two", 4, 2, card=0), pod("one", 4, card=1), pod("small", 2, card=2))
    assert not store.may_continue_another(2)
    store.on_allocate("uid-one", "c0", {1: 4}, 0.0)
    assert store.may_continue_another(2)
    assert not store.may_continue_another(4)
    reconcile(store, {"d/one": {"c0": {1: 4}}})
    assert not store.may_continue_another(2)
