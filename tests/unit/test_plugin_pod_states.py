"""The states of pods on a node in random histories of events."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gcushare.device_plugin.pods.force_deleted import KILL_MARGIN_S
from gcushare.device_plugin.pods.pod import PodState
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.objects import Pod
from tests.unit.plugin_pods import (
    UNITS,
    UUIDS,
    being_deleted,
    in_use,
    init_pod,
    pod,
    reconcile,
    store_of,
    whole_pod,
    with_more,
    written,
)

CARDS = (0, 1)
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
    store: PodStore = field(default_factory=store_of)
    shown: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)
    later: set[PodState] = field(default_factory=set)
    first: set[PodState] = field(default_factory=set)
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
        name, card = f"p{number}", self.rng.choice([None, *CARDS])
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
        counts = {self.rng.choice(guess.card_indexes or CARDS): guess.next_units}
        self.store.on_allocate(guess.pod.uid, guess.next_container, counts, self.now_s)
        if truth.next_units == guess.next_units and truth.next_container != "i0" and self.rng.random() < 0.8:
            self.shown.setdefault(str(truth.pod), {})[truth.next_container] = counts


@pytest.mark.slow
def test_every_state_occurs_and_a_write_changes_none() -> None:
    first: set[PodState] = set()
    later: set[PodState] = set()
    for seed in range(16):
        history = History(random.Random(seed))
        history.run(300)
        first |= history.first
        later |= history.later
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
    held = {"d/holds": {"c0": {0: 4}}}
    reconcile(store, held)
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
