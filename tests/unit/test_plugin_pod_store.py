"""What the plugin believes of its pods, against every order in which the kubelet may really have served them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.matching import match
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations.keys import UNITS_BY_CARD
from gcushare.wire.annotations.record import decode_record
from tests.unit.plugin_pods import UNITS, UUIDS, init_pod, pod, store_of, with_annotations, written
from tests.unit.plugin_reconcile import reconcile


def test_nothing_is_written_before_the_kubelets_record_shows_it() -> None:
    store = store_of(pod("a", 4))
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    assert written(store) == {}
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert written(store) == {"a": ((0,), ())}


def test_a_pod_on_another_card_than_recorded_is_corrected_and_says_from_where() -> None:
    store = store_of(pod("a", 4, card=0))
    reconcile(store, {"d/a": {"c0": {3: 4}}})
    (write,) = store.writes(UUIDS, UNITS, 1)
    record = decode_record(ENFLAME, write.annotations)
    assert record is not None
    assert (record.card_indexes, record.assigned, record.assign_time_ns) == ((3,), True, 7)
    assert write.annotations["gcushare.io/corrected"] == "0->3"
    assert write.annotations["gcushare.io/card-uuid"] == "uuid-3"


def test_a_pod_that_was_torn_over_two_cards_says_how_much_it_has_of_each() -> None:
    store = store_of(pod("a", 2, 3, card=0))
    reconcile(store, {"d/a": {"c0": {0: 2}, "c1": {3: 3}}})
    (write,) = store.writes(UUIDS, UNITS, 1)
    record = decode_record(ENFLAME, write.annotations)
    assert record is not None
    assert record.units_by_card(5) == {0: 2, 3: 3}
    store.on_pod_update(with_annotations(pod("a", 2, 3), write.annotations))
    assert written(store) == {}
    store.on_pod_update(with_annotations(pod("a", 2, 3), {**write.annotations, UNITS_BY_CARD: "4,1"}))
    (again,) = store.writes(UUIDS, UNITS, 2)
    assert (again.annotations[UNITS_BY_CARD], again.corrected_from) == ("2,3", ())


def test_shares_that_somebody_else_wrote_on_a_pod_with_equal_ones_are_taken_away() -> None:
    store = store_of(pod("a", 2, 2, card=0))
    reconcile(store, {"d/a": {"c0": {0: 2}, "c1": {3: 2}}})
    (write,) = store.writes(UUIDS, UNITS, 1)
    assert UNITS_BY_CARD not in write.annotations
    store.on_pod_update(with_annotations(pod("a", 2, 2), {**write.annotations, UNITS_BY_CARD: "3,1"}))
    (again,) = store.writes(UUIDS, UNITS, 2)
    assert again.annotations[UNITS_BY_CARD] == ""
    store.on_pod_update(with_annotations(pod("a", 2, 2), again.annotations))
    assert written(store) == {}


def test_a_true_record_is_left_alone() -> None:
    store = store_of(pod("a", 4, card=0, assigned=True))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert written(store) == {}


def test_a_pod_that_no_one_assigned_is_recorded() -> None:
    store = store_of(pod("a", 4, card=None))
    reconcile(store, {"uid-a": {"c0": {2: 4}}})
    (write,) = store.writes(UUIDS, UNITS, 99)
    record = decode_record(ENFLAME, write.annotations)
    assert record is not None
    assert write.placed_here
    assert (record.card_indexes, record.pod_units, record.assign_time_ns) == ((2,), 4, 99)


def test_a_pod_half_served_is_not_written_and_holds_its_card() -> None:
    store = store_of(pod("a", 4, 2, card=0))
    reconcile(store, {"d/a": {"c0": {5: 4}}})
    assert written(store) == {}
    (candidate,) = store.candidates()
    assert (candidate.served, candidate.next_units, candidate.card_indexes) == (1, 2, (5,))


def test_a_wrong_guess_frees_the_pod_that_it_was_made_for() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=1))
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    assert [c.pod.name for c in store.candidates()] == ["b"]
    reconcile(store, {"d/b": {"c0": {0: 4}}})
    assert [c.pod.name for c in store.candidates()] == ["a"]
    assert store.pending_allocations == 0
    assert written(store) == {"b": ((0,), (1,)), "a": ((1,), (0,))}


def test_pods_of_equal_requests_change_places_so_that_each_still_fits_as_planned() -> None:
    store = store_of(pod("a", 8, card=0), pod("b", 8, card=1), pod("c", 4, card=1))
    reconcile(store, {"d/b": {"c0": {0: 8}}})
    assert {c.pod.name: c.card_indexes for c in store.candidates()} == {"a": (1,), "c": (1,)}
    (swapped,) = [write for write in store.writes(UUIDS, UNITS, 1) if write.pod.name == "a"]
    record = decode_record(ENFLAME, swapped.annotations)
    assert record is not None
    assert (record.card_indexes, record.assigned) == ((1,), False)


def test_a_running_pod_that_the_kubelet_forgot_keeps_its_record() -> None:
    store = store_of(pod("forgotten", 4, card=0, assigned=True), pod("new", 4, card=1))
    reconcile(store, {})
    meant = match(store.candidates(), 4, {0: 16, 1: 16})
    assert meant is not None
    assert meant.pod.name == "new"
    reconcile(store, {"d/new": {"c0": {0: 4}}})
    assert written(store) == {"new": ((0,), (1,))}


@pytest.mark.parametrize("is_echoed", [True, False])
def test_a_corrected_pod_that_the_kubelet_forgot_keeps_its_correction(*, is_echoed: bool) -> None:
    store = store_of(pod("a", 4, card=0))
    reconcile(store, {"d/a": {"c0": {1: 4}}})
    (write,) = store.writes(UUIDS, UNITS, 1)
    store.on_record_written(write)
    if is_echoed:
        store.on_pod_update(with_annotations(pod("a", 4), write.annotations))
    reconcile(store, {})
    assert written(store) == {}
    assert [c.card_indexes for c in store.candidates()] == [(1,)]


def test_who_is_planned_beside_a_corrected_pod_does_not_change_places_with_it() -> None:
    store = store_of(pod("a", 4, card=0))
    shown = {"d/a": {"c0": {1: 4}}}
    reconcile(store, shown)
    (write,) = store.writes(UUIDS, UNITS, 1)
    store.on_record_written(write)
    store.on_pod_update(with_annotations(pod("a", 4), write.annotations))
    store.on_pod_update(pod("b", 4, card=1))
    reconcile(store, shown)
    assert written(store) == {}
    assert [c.card_indexes for c in store.candidates()] == [(1,)]


def test_a_pod_that_the_kubelet_forgot_and_admits_again_is_recorded_where_it_is() -> None:
    store = store_of(pod("forgotten", 4, card=0, assigned=True))
    reconcile(store, {})
    meant = match(store.candidates(), 4, {0: 16, 1: 16})
    assert meant is not None
    assert (meant.pod.name, meant.card_indexes) == ("forgotten", (0,))
    reconcile(store, {"d/forgotten": {"c0": {1: 4}}})
    assert written(store) == {"forgotten": ((1,), (0,))}


def test_whose_units_were_handed_out_is_no_pod_that_the_kubelet_forgot() -> None:
    store = store_of(pod("a", 4, card=1), pod("meant", 4, card=1), pod("z", 4, card=1, assigned=True))
    reconcile(store, {})
    store.on_allocate("uid-meant", "c0", {1: 4}, 0.0)
    reconcile(store, {"d/meant": {"c0": {0: 4}}})
    displaced = {each.pod.name for each in store.candidates() if each.is_displaced}
    assert displaced == {"a"}, "z is younger, and runs"


def test_a_guess_too_young_for_the_kubelets_record_stands() -> None:
    store = store_of(pod("a", 4), pod("b", 4))
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    reconcile(store, {})
    assert [c.pod.name for c in store.candidates()] == ["b"]


@pytest.mark.parametrize(("is_readable", "left"), [(True, ["a"]), (False, [])])
def test_a_guess_that_is_never_shown_ends(is_readable: bool, left: list[str]) -> None:
    store = store_of(pod("a", 4))
    store.on_allocate("uid-a", "c0", {0: 4}, 5.0)
    store.end_pending(5.0, is_readable=is_readable)
    assert store.pending_allocations == 1
    store.end_pending(6.0, is_readable=is_readable)
    assert [c.pod.name for c in store.candidates()] == left
    assert ("a" in written(store)) is not is_readable


def test_another_pod_of_the_same_name_is_another_pod() -> None:
    store = store_of(pod("a", 4, uid="old"))
    reconcile(store, {"old": {"c0": {0: 4}}})
    store.on_pod_update(pod("a", 4, uid="new", card=1))
    store.on_pod_delete("old")
    reconcile(store, {})
    assert [c.pod.uid for c in store.candidates()] == ["new"]


def test_a_finished_or_unreadable_pod_is_no_candidate_and_is_explained() -> None:
    store = store_of(pod("a", 4), pod("b", 4))
    assert store.on_pod_update(pod("a", 4, phase="Failed"))
    broken = pod("b", 4)
    broken.metadata.annotations["enflame.com/gcu-device-id"] = "zero"
    store.on_pod_update(broken)
    assert store.candidates() == []
    assert [(u.pod.name, "is not a whole number" in u.reason) for u in store.unreadable] == [("b", True)]


def test_promises_are_what_records_name_and_no_one_holds_yet() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 2, 3, card=0), pod("c", 4, card=None))
    assert store.promised() == {0: 9}
    store.on_allocate("uid-b", "c0", {0: 2}, 0.0)
    assert store.promised() == {0: 4}


def serve(
    store: PodStore, units: int, free: dict[int, int], truth: str, holdings: dict[str, dict[str, dict[int, int]]]
) -> None:
    """One admission as the kubelet double does it: our preference decides the card, the kubelet knows for whom."""
    candidate = match(store.candidates(), units, free)
    assert candidate is not None
    card = next(c for c in (*candidate.card_indexes, *free) if free[c] >= units)
    free[card] -= units
    store.on_allocate(candidate.pod.uid, candidate.next_container, {card: units}, 0.0)
    holdings.setdefault(f"d/{truth}", {})[f"c{len(holdings.get(f'd/{truth}', {}))}"] = {card: units}


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


def test_a_wrong_guess_for_an_init_container_does_not_outlive_its_pods_admission() -> None:
    store = store_of(init_pod("a", 1, 4))
    store.on_allocate("uid-a", "init", {2: 1}, 0.0)
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0)
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert (store.pending_allocations, written(store)) == (0, {"a": ((0,), ())})


def test_a_call_that_may_be_for_a_pods_second_container_waits_for_the_record() -> None:
    store = store_of(pod("two", 4, 2, card=0), pod("one", 4, card=1), pod("small", 2, card=2))
    assert not store.may_continue_another(2)
    store.on_allocate("uid-one", "c0", {1: 4}, 0.0)
    assert store.may_continue_another(2)
    assert not store.may_continue_another(4)
    reconcile(store, {"d/one": {"c0": {1: 4}}})
    assert not store.may_continue_another(2)
