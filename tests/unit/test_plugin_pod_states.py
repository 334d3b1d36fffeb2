"""A pod that comes into the store while the kubelet has long given it its cards, and states in random histories."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gcushare.device_plugin.pods.force_deleted import KILL_MARGIN_S
from gcushare.device_plugin.pods.pod import PodState
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.annotations import CARDS
from gcushare.wire.objects import Pod
from tests.unit.plugin_pods import (
    UNITS,
    UUIDS,
    being_deleted,
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
    store = store_of(memory={key: {"c0": {0: 4}}})
    assert store.pod_applied(pod("a", 4, card=0, assigned=True))
    assert (waiting(store), store.promised(), store.held_units()) == ([], {}, {0: 4})


def test_a_running_pod_with_whole_cards_that_the_watch_shows_late_is_no_candidate() -> None:
    store = store_of(whole={"d/w": {"c0": {1: 1}}})
    store.pod_applied(whole_pod("w", cards="1", assigned=True))
    assert (waiting(store), store.promised_whole(), store.held_units(UNITS)) == ([], {}, {1: 16})


def test_a_pod_that_the_kubelet_shows_half_served_goes_on_where_it_is() -> None:
    store = store_of(memory={"d/a": {"c0": {3: 4}}})
    store.pod_applied(pod("a", 4, 2, card=0))
    (candidate,) = store.candidates()
    assert (candidate.served, candidate.next_units, candidate.card_indexes, written(store)) == (1, 2, (3,), {})


def test_a_pod_that_took_the_name_of_another_gets_nothing_of_what_is_shown_under_that_name() -> None:
    for is_over in (True, False):
        store = store_of(pod("a", 4, uid="old"), memory={"d/a": {"c0": {0: 4}}})
        store.pod_deleted("old", is_over=is_over)
        store.pod_applied(pod("a", 4, uid="new", card=1))
        assert waiting(store) == ["a"], f"{is_over=}"
    store = store_of(pod("a", 4, uid="old"), memory={"d/a": {"c0": {0: 4}}})
    store.pod_applied(pod("a", 4, uid="new", card=1))
    assert [candidate.pod.uid for candidate in store.candidates()] == ["new"], "both are here for a moment"


def test_a_pod_that_says_it_was_served_waits_for_nothing_until_the_kubelet_was_asked_about_it() -> None:
    store = store_of(memory={})
    store.pod_applied(pod("a", 4, card=2, assigned=True))
    assert (waiting(store), store.promised(), in_use(store)) == ([], {}, ({2}, set()))
    reconcile(store, {}, asked=())
    assert waiting(store) == [], "the record was read before the pod was known: its silence says nothing"
    reconcile(store, {}, asked={"uid-a"})
    assert (waiting(store), in_use(store)) == (["a"], (set(), set()))


def test_a_pod_in_doubt_inherits_no_cards_of_another() -> None:
    store = store_of(pod("moved", 4, card=0), memory={})
    store.pod_applied(pod("doubtful", 4, card=1, assigned=True))
    reconcile(store, {"d/moved": {"c0": {1: 4}}}, asked={"uid-moved"})
    assert store.entries["uid-doubtful"].promise == (1,)


def test_one_record_by_uid_and_the_next_by_name_settle_an_allocation_only_once() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=0), memory={"uid-a": {"c0": {0: 4}}})
    store.on_allocate("uid-b", "c0", {0: 4}, 0.0)
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert (store.pending_allocations, waiting(store)) == (1, [])
    reconcile(store, {"d/a": {"c0": {0: 4}}, "uid-a": {"c0": {0: 4}}})
    assert (store.pending_allocations, waiting(store)) == (1, [])
    reconcile(store, {"uid-a": {"c0": {0: 4}}, "uid-b": {"c0": {0: 4}}})
    assert store.pending_allocations == 0


# Records that somebody spoils


def test_a_corrupt_record_of_a_running_pod_is_written_again_from_what_the_kubelet_gave() -> None:
    store = store_of(pod("a", 4, card=0, assigned=True), memory={"d/a": {"c0": {0: 4}}})
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
        store = store_of(memory={"uid-a": {"c0": {3: 4}}})
        store.pod_applied(with_more(with_unreadable_record(pod("a", 4, card=0)), extra))
        assert written(store) == {"a": ((3,), ())}, extra
        assert (waiting(store), store.held_units()) == ([], {3: 4}), extra


def test_a_corrupt_record_may_have_said_that_the_pod_was_served() -> None:
    store = store_of(memory={})
    store.pod_applied(with_unreadable_record(pod("a", 4)))
    assert waiting(store) == []
    assert store.missing_from(frozenset()) == ["uid-a"], "the kubelet's checkpoint is asked"
    reconcile(store, {})
    assert waiting(store) == ["a"], "it was not, and is placed like a pod without a record"


def test_a_waiting_pod_whose_record_is_corrupt_keeps_the_card_that_was_planned() -> None:
    store = store_of(pod("a", 4, card=5), memory={})
    store.pod_applied(with_unreadable_record(pod("a", 4)))
    assert [candidate.card_indexes for candidate in store.candidates()] == [(5,)]
    assert store.promised() == {5: 4}
    assert written(store) == {}
    reconcile(store, {"d/a": {"c0": {5: 4}}})
    assert written(store) == {"a": ((5,), ())}


def test_a_false_card_on_a_served_pod_moves_no_other_pods_card() -> None:
    store = store_of(pod("a", 4, card=0, assigned=True), pod("b", 4, card=0), memory={"d/a": {"c0": {0: 4}}})
    store.pod_applied(pod("a", 4, card=7, assigned=True))
    reconcile(store, {"d/a": {"c0": {0: 4}}})
    assert [candidate.card_indexes for candidate in store.candidates()] == [(0,)]
    assert written(store) == {"a": ((0,), (7,))}


def test_a_corrupt_record_of_whole_cards_leaves_those_of_its_init_containers_in_use() -> None:
    store = store_of(whole_pod("w", 1, "2,3", init=2), whole={"d/w": {"i0": {2: 1, 3: 1}, "c0": {3: 1}}})
    for change in (with_unreadable_record(whole_pod("w", 1, "2,3", init=2)), whole_pod("w", 1, "6", init=2)):
        store.pod_applied(change)
        assert in_use(store) == (set(), {2, 3})
        assert [write.cards for write in store.writes(UUIDS, UNITS, 1)] == [(2, 3)]


def test_an_authors_option_that_turns_unreadable_takes_nothing_from_a_pod_that_is_here() -> None:
    store = store_of(pod("a", 4, card=None), memory={"uid-a": {"c0": {0: 4}}})
    store.pod_applied(with_more(pod("a", 4, card=None), {CARDS: "many"}))
    assert (store.held_units(), written(store)) == ({0: 4}, {"a": ((0,), ())})


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_pod_that_has_ended_is_forgotten_even_if_its_record_is_corrupt(is_gone: bool) -> None:
    store = store_of(init_pod("a", 1, 4), memory={"d/a": {"c0": {0: 4}}})
    corrupt = with_unreadable_record(init_pod("a", 1, 4))
    store.pod_applied(corrupt)
    assert store.pod_deleted("uid-a", is_over=True) if is_gone else store.pod_applied(ended(corrupt))
    assert (store.unreadable, in_use(store), dict(store.entries)) == ((), (set(), set()), {})


INDEXES = (0, 1)
SHAPES: tuple[Callable[[str, int | None, bool], Pod], ...] = (
    lambda name, card, assigned: pod(name, 4, card=card, assigned=assigned),
    lambda name, card, assigned: pod(name, 4, card=card, assigned=assigned),
    lambda name, card, assigned: pod(name, 4, 2, card=card, assigned=assigned),
    lambda name, _card, _assigned: init_pod(name, 2, 4),
)


@dataclass
class History:
    """Random events for one store, and the states of new pods and of those that were there before."""

    rng: random.Random
    first: set[PodState]
    later: set[PodState]
    store: PodStore = field(default_factory=store_of)
    shown: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    now_s: float = 0.0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now_s += 1.0
            before = set(self.store.entries)
            self.step()
            for uid, entry in self.store.entries.items():
                (self.later if uid in before else self.first).add(entry.state)

    def step(self) -> None:
        self.write()
        self.rng.choice([self.update, self.allocate, self.read, self.end_pending])()

    def read(self) -> None:
        known = list(self.store.entries)
        asked = self.rng.choice([None, self.rng.sample(known, len(known) // 2)])
        if self.rng.random() < 0.1:
            self.shown.clear()
        reconcile(self.store, copy.deepcopy(self.shown), asked=asked)
        self.store.end_gone((), self.now_s, wall_s=self.now_s)

    def end_pending(self) -> None:
        self.store.end_pending(self.now_s - self.rng.choice([0, 3]), is_readable=self.rng.random() < 0.5)

    def write(self) -> None:
        """Write a record now and then, which changes no state."""
        states = {uid: entry.state for uid, entry in self.store.entries.items()}
        for write in self.store.writes(UUIDS, UNITS, 7)[: self.rng.randrange(2)]:
            self.store.on_record_written(write)
        assert {uid: entry.state for uid, entry in self.store.entries.items()} == states

    def update(self) -> None:
        number = self.rng.randrange(6)
        name, card = f"p{number}", self.rng.choice([None, *INDEXES])
        if self.rng.random() < 0.15:
            self.shown.pop(f"d/{name}", None)
            self.store.pod_deleted(f"uid-{name}", is_over=self.rng.random() < 0.5)
            return
        made = SHAPES[number % len(SHAPES)](name, card, self.rng.random() < 0.3)
        if self.rng.random() < 0.1:
            made = with_more(made, {"enflame.com/gcu-device-id": "zero"})
        if self.rng.random() < 0.1:
            made = being_deleted(made, ended_s=0)
        self.store.pod_applied(made)

    def allocate(self) -> None:
        candidates = self.store.candidates()
        if not candidates:
            return
        guess, truth = self.rng.choice(candidates), self.rng.choice(candidates)
        counts = {self.rng.choice(guess.card_indexes or INDEXES): guess.next_units}
        self.store.on_allocate(guess.pod.uid, guess.next_container, counts, self.now_s)
        if truth.next_units == guess.next_units and truth.next_container != "i0" and self.rng.random() < 0.8:
            self.shown.setdefault(str(truth.pod), {})[truth.next_container] = counts


@pytest.mark.slow
def test_every_state_occurs_and_a_write_changes_none() -> None:
    first: set[PodState] = set()
    later: set[PodState] = set()
    for seed in range(16):
        History(random.Random(seed), first, later).run(300)
    assert first == set(PodState) - {PodState.FORGOTTEN, PodState.OVERDUE}
    assert later == set(PodState)


def test_a_pod_whose_deletion_time_has_passed_is_kept_nothing_unless_the_kubelet_shows_it() -> None:
    """A finalizer keeps its object as long as its author likes; what it was bound with is not given back to it."""
    pods = {each.metadata.name: being_deleted(each, ended_s=1_000) for each in (
        pod("bound", 4, card=0),
        pod("nodeName", 4, card=None),
        pod("was-assigned", 4, card=0, assigned=True),
        whole_pod("whole", 1, "1"),
        pod("holds", 4, card=0),
    )}  # fmt: skip
    store = store_of(*pods.values())
    reconcile(store, {"d/holds": {"c0": {0: 4}}})
    for wall_s, is_kept in ((999.0, True), (1_000.0 + KILL_MARGIN_S + 1, False)):
        store.end_gone((), 0.0, wall_s=wall_s)
        assert {each.pod.name for each in store.candidates()} == ({*pods} - {"holds", "whole"} if is_kept else set())
        assert (store.promised(), set(store.promised_whole())) == (({0: 8}, {1}) if is_kept else ({}, set()))
        assert store.holders() == ([f"d/{name}" for name in sorted(pods)] if is_kept else ["d/holds"])
        assert (store.held_units(), in_use(store)) == ({0: 4}, ({0}, set()))
    assert written(store) == {"holds": ((0,), ())}


def test_of_the_time_that_an_author_gives_a_pod_to_end_no_more_counts_than_the_limit() -> None:
    """Its deletion was asked for at 1,000: it may take ten minutes."""
    grace_s = 4_000_000_000
    store = store_of(being_deleted(pod("long", 4, card=0), ended_s=1_000 + grace_s, grace_s=grace_s))
    for wall_s, is_kept in ((1_600.0, True), (1_601.0 + KILL_MARGIN_S, False)):
        store.end_gone((), 0.0, wall_s=wall_s)
        assert bool(store.promised()) is is_kept
