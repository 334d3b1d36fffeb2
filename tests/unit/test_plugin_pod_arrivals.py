"""A pod that comes into the store, or whose record somebody spoils, while the kubelet has long given it its cards."""

import pytest

from gcushare.wire.annotations import CARDS
from gcushare.wire.objects import Pod
from tests.unit.plugin_pods import (
    UNITS,
    UUIDS,
    ended,
    in_use,
    init_pod,
    pod,
    reconcile,
    record_of,
    store_of,
    waiting,
    whole_pod,
    with_more,
    written,
)

CARD = "enflame.com/gcu-device-id"


def with_unreadable_record(each: Pod) -> Pod:
    return with_more(each, {CARD: "zzz"})


@pytest.mark.parametrize("key", [pytest.param("d/a", id="by name"), pytest.param("uid-a", id="by uid")])
def test_a_running_pod_that_the_watch_shows_late_is_no_candidate_and_nothing_is_kept_for_it(key: str) -> None:
    store = store_of()
    reconcile(store, {key: {"c0": {0: 4}}})
    assert store.pod_applied(pod("a", 4, card=0, assigned=True))
    assert (waiting(store), store.promised(), store.held_units()) == ([], {}, {0: 4})


def test_a_running_pod_with_whole_cards_that_the_watch_shows_late_is_no_candidate() -> None:
    store = store_of()
    reconcile(store, {}, {"d/w": {"c0": {1: 1}}})
    store.pod_applied(whole_pod("w", cards="1", assigned=True))
    assert (waiting(store), store.promised_whole(), store.held_units(UNITS)) == ([], {}, {1: 16})


def test_a_pod_that_the_kubelet_shows_half_served_goes_on_where_it_is() -> None:
    store = store_of()
    reconcile(store, {"d/a": {"c0": {3: 4}}})
    store.pod_applied(pod("a", 4, 2, card=0))
    (candidate,) = store.candidates()
    assert (candidate.served, candidate.next_units, candidate.card_indexes, written(store)) == (1, 2, (3,), {})


def test_a_pod_that_took_the_name_of_another_gets_nothing_of_what_is_shown_under_that_name() -> None:
    for is_over in (True, False):
        store = store_of(pod("a", 4, uid="old"))
        reconcile(store, {"d/a": {"c0": {0: 4}}})
        store.pod_deleted("old", is_over=is_over)
        store.pod_applied(pod("a", 4, uid="new", card=1))
        assert waiting(store) == ["a"], f"{is_over=}"
    store = store_of(pod("a", 4, uid="old"))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    store.pod_applied(pod("a", 4, uid="new", card=1))
    assert [candidate.pod.uid for candidate in store.candidates()] == ["new"], "both are here for a moment"


def test_a_pod_that_says_it_was_served_waits_for_nothing_until_the_kubelet_was_asked_about_it() -> None:
    store = store_of()
    reconcile(store, {})
    store.pod_applied(pod("a", 4, card=2, assigned=True))
    assert (waiting(store), store.promised(), in_use(store)) == ([], {}, ({2}, set()))
    reconcile(store, {}, asked=())
    assert waiting(store) == [], "the record was read before the pod was known: its silence says nothing"
    reconcile(store, {}, asked={"uid-a"})
    assert (waiting(store), in_use(store)) == (["a"], (set(), set()))


def test_a_pod_in_doubt_inherits_no_cards_of_another() -> None:
    store = store_of(pod("moved", 4, card=0))
    reconcile(store, {})
    store.pod_applied(pod("doubtful", 4, card=1, assigned=True))
    reconcile(store, {"d/moved": {"c0": {1: 4}}}, asked={"uid-moved"})
    assert store.entries["uid-doubtful"].promise == (1,)


def test_one_record_by_uid_and_the_next_by_name_settle_an_allocation_only_once() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=0))
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    store.on_allocate("uid-b", "c0", {0: 4}, 0.0)
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert (store.pending_allocations, waiting(store)) == (1, [])
    reconcile(store, {"d/a": {"c0": {0: 4}}, "uid-a": {"c0": {0: 4}}})
    assert (store.pending_allocations, waiting(store)) == (1, [])
    reconcile(store, {"uid-a": {"c0": {0: 4}}, "uid-b": {"c0": {0: 4}}})
    assert store.pending_allocations == 0


# Records that somebody spoils


def test_a_corrupt_record_of_a_running_pod_is_written_again_from_what_the_kubelet_gave() -> None:
    store = store_of(pod("a", 4, card=0, assigned=True))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    store.pod_applied(with_unreadable_record(pod("a", 4)))
    assert (waiting(store), store.promised(), store.held_units()) == ([], {}, {0: 4})
    assert (store.users_of(0, whole=False), in_use(store)) == (["d/a"], ({0}, set()))
    (write,) = store.writes(UUIDS, UNITS, 99)
    record = record_of(write)
    assert (record.card_indexes, record.pod_units, record.assigned, record.assign_time_ns) == ((0,), 4, True, 7)
    assert (write.placed_here, write.corrected_from, "gcushare.io/corrected" in write.annotations) == (False, (), False)
    assert "is not a whole number" in write.repaired
    assert [each.pod.name for each in store.unreadable] == ["a"]
    store.on_record_written(write)
    store.pod_applied(pod("a", 4, card=0, assigned=True))
    assert (store.unreadable, written(store), waiting(store), store.held_units()) == ((), {}, [], {0: 4})


def test_after_a_restart_a_corrupt_record_hides_nothing_whatever_else_was_written_on_the_pod() -> None:
    for extra in ({}, {CARDS: "many"}, {CARDS: "2"}):
        store = store_of()
        reconcile(store, {"uid-a": {"c0": {3: 4}}})
        store.pod_applied(with_more(with_unreadable_record(pod("a", 4, card=0)), extra))
        assert written(store) == {"a": ((3,), ())}, extra
        assert (waiting(store), store.held_units()) == ([], {3: 4}), extra


def test_a_corrupt_record_may_have_said_that_the_pod_was_served() -> None:
    store = store_of()
    reconcile(store, {})
    store.pod_applied(with_unreadable_record(pod("a", 4)))
    assert waiting(store) == []
    assert store.missing_from(frozenset()) == ["uid-a"], "the kubelet's checkpoint is asked"
    reconcile(store, {})
    assert waiting(store) == ["a"], "it was not, and is placed like a pod without a record"


def test_a_waiting_pod_whose_record_is_corrupt_keeps_the_card_that_was_planned() -> None:
    store = store_of(pod("a", 4, card=5))
    reconcile(store, {})
    store.pod_applied(with_unreadable_record(pod("a", 4)))
    assert [candidate.card_indexes for candidate in store.candidates()] == [(5,)]
    assert store.promised() == {5: 4}
    assert written(store) == {}
    reconcile(store, {"d/a": {"c0": {5: 4}}})
    assert written(store) == {"a": ((5,), ())}


def test_a_false_card_on_a_served_pod_moves_no_other_pods_card() -> None:
    store = store_of(pod("a", 4, card=0, assigned=True), pod("b", 4, card=0))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    store.pod_applied(pod("a", 4, card=7, assigned=True))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert [candidate.card_indexes for candidate in store.candidates()] == [(0,)]
    assert written(store) == {"a": ((0,), (7,))}


def test_a_corrupt_record_of_whole_cards_leaves_those_of_its_init_containers_in_use() -> None:
    store = store_of(whole_pod("w", 1, "2,3", init=2))
    reconcile(store, {}, {"d/w": {"i0": {2: 1, 3: 1}, "c0": {3: 1}}})
    for change in (with_unreadable_record(whole_pod("w", 1, "2,3", init=2)), whole_pod("w", 1, "6", init=2)):
        store.pod_applied(change)
        assert in_use(store) == (set(), {2, 3})
        assert [write.cards for write in store.writes(UUIDS, UNITS, 1)] == [(2, 3)]


def test_an_authors_option_that_turns_unreadable_takes_nothing_from_a_pod_that_is_here() -> None:
    store = store_of(pod("a", 4, card=None))
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    store.pod_applied(with_more(pod("a", 4, card=None), {CARDS: "many"}))
    assert (store.held_units(), written(store)) == ({0: 4}, {"a": ((0,), ())})


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_pod_that_has_ended_is_forgotten_even_if_its_record_is_corrupt(is_gone: bool) -> None:
    store = store_of(init_pod("a", 1, 4))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    corrupt = with_unreadable_record(init_pod("a", 1, 4))
    store.pod_applied(corrupt)
    assert store.pod_deleted("uid-a", is_over=True) if is_gone else store.pod_applied(ended(corrupt))
    assert (store.unreadable, in_use(store), dict(store.entries)) == ((), (set(), set()), {})
