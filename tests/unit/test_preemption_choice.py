"""Who ends on a node for a preemptor, of all less important pods, against trying every set of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.choice import Choice, Occupancy, Occupant, Proposed
from gcushare.core.preemption.kept_room import NO_NOMINEES
from gcushare.core.preemption.victims import Rank, rank_victims
from gcushare.core.requests import CardRequest
from tests.builders import GIB_UNIT, asks, asks_whole, cards

MEMORY, CPU = "cards", "cpu"
CLUSTERS = 10_000 if settings().max_examples > 100 else 150


@dataclass
class World:
    """A node whose kubelet counts ``memory`` units of its cards, and a preemptor that asks for cards and CPU."""

    node: NodeState
    request: CardRequest
    cpu: int
    total_cpu: int
    memory: int
    priority: int
    pods: dict[str, Occupant] = field(default_factory=dict)
    allowed: dict[str, int] | None = field(default_factory=dict)
    has_other_rules: bool = False

    def add(
        self,
        name: str,
        *grants: tuple[int, int],
        cpu: int = 0,
        priority: int = 0,
        created: str = "",
        budgets: frozenset[str] = frozenset(),
        conflicts: bool = False,
    ) -> None:
        ref = PodRef(name, "default", name, created, priority)
        if grants:
            self.node.add(
                Assignment(ref, "n", tuple(CardGrant(index, units) for index, units in grants), assigned=True)
            )
        requests = {MEMORY: sum(units for _, units in grants), CPU: cpu}
        self.pods[name] = Occupant(ref, requests, budgets, conflicts)

    @property
    def here(self) -> Occupancy:
        taken: Counter[str] = Counter()
        for pod in self.pods.values():
            taken.update(pod.requests)
        units = self.request.units * self.request.cards
        missing = {MEMORY: units + taken[MEMORY] - self.memory, CPU: self.cpu + taken[CPU] - self.total_cpu}
        return Occupancy(self.pods, missing, frozenset({MEMORY}), self.allowed, self.has_other_rules)

    def choose(self, proposed: Proposed) -> Proposed | None:
        preemptor = PodRef("preemptor", "default", "preemptor", "", self.priority)
        return Choice(self.node, preemptor, self.request, self.here, proposed, NO_NOMINEES).make()

    # What kube-scheduler and we look at

    def lacks(self, ended: Collection[str]) -> set[str]:
        staying = [pod for uid, pod in self.pods.items() if uid not in ended]
        units = self.request.units * self.request.cards
        asked = {MEMORY: (units, self.memory), CPU: (self.cpu, self.total_cpu)}
        return {
            name
            for name, (amount, total) in asked.items()
            if amount and amount + sum(pod.requests[name] for pod in staying) > total
        }

    def frees_cards(self, ended: Collection[str]) -> bool:
        trial = self.node.copy()
        for uid in ended:
            trial.remove(uid)
        return trial.fits(self.request)

    def passes_own_filters(self, ended: Collection[str]) -> bool:
        return not self.lacks(ended) and not any(p.conflicts for uid, p in self.pods.items() if uid not in ended)

    def violating(self, ended: Collection[str]) -> list[str]:
        left = Counter(self.allowed or {})
        found = []
        for uid in sorted(ended, key=self.importance):
            left.subtract(self.pods[uid].budgets)
            found += [uid] * any(left[budget] < 0 for budget in self.pods[uid].budgets)
        return found

    def importance(self, uid: str) -> tuple[int, str, str]:
        ref = self.pods[uid].ref
        return -ref.priority, ref.created, uid

    @property
    def lower(self) -> list[str]:
        return sorted((u for u, p in self.pods.items() if p.ref.priority < self.priority), key=self.importance)

    def propose(self) -> Proposed | None:
        """kube-scheduler's own choice: the less important pods that it cannot spare; None if it can spare all."""
        ended = set(self.lower)
        if not self.passes_own_filters(ended):
            return None
        violating = self.violating(self.lower)
        for uid in (*violating, *(each for each in self.lower if each not in violating)):
            if self.passes_own_filters(ended - {uid}):
                ended.discard(uid)
        uids = sorted(ended, key=self.importance)
        return Proposed(uids, len(set(violating) & ended)) if uids else None

    def try_every_set(self, proposed: Proposed) -> list[str] | None:
        """The best set there is, by what the module's text says."""
        own = {uid for uid in self.lower if uid in self.node.assignments and self.allowed is not None}
        pool = sorted(own.union(proposed.uids))
        kept = Counter(self.allowed or {}) | Counter(b for uid in proposed.uids for b in self.pods[uid].budgets)
        must = {
            uid
            for uid in proposed.uids
            if self.pods[uid].conflicts
            or (self.has_other_rules and not self.lacks([each for each in proposed.uids if each != uid]))
        }

        def is_enough(ended: Collection[str]) -> bool:
            counts = Counter(budget for uid in ended for budget in self.pods[uid].budgets)
            return (
                must <= set(ended)
                and all(count <= kept[budget] for budget, count in counts.items())
                and not self.lacks(ended)
                and self.frees_cards(ended)
            )

        def rank(ended: Iterable[str]) -> tuple[int, Rank]:
            chosen = list(ended)
            return len(self.violating(chosen)), rank_victims([self.pods[uid].ref for uid in chosen])

        sets = [ended for count in range(len(pool) + 1) for ended in combinations(pool, count) if is_enough(ended)]
        return sorted(min(sets, key=rank), key=self.importance) if sets else None


def any_world(rng: random.Random, most_pods: int) -> World:
    sizes = [rng.choice([4, 8, 16]) for _ in range(rng.randint(1, 3))]
    node = NodeState("n")
    node.set_cards(cards(*sizes), GIB_UNIT)
    request = asks(rng.randint(1, 12), rng.choice([1, 1, 1, 2]))
    lie = rng.choice([0, 0, 0, 0, 3])
    world = World(node, request, rng.choice([0, 0, 2, 4]), 10, sum(sizes) - lie, rng.randint(1, 3))
    world.allowed = rng.choice([None, {}, {}, {"a": rng.randint(0, 2), "b": rng.randint(0, 1)}])
    world.has_other_rules = rng.random() < 0.2
    for number in range(rng.randint(1, most_pods)):
        room = [index for index, state in node.cards.items() if state.free]
        few = rng.sample(room, min(len(room), rng.choice([0, 1, 1, 1, 1, 2])))
        units = rng.randint(1, min((node.cards[index].free for index in few), default=1))
        cpu = min(rng.choice([0, 0, 1, 3]), 10 - sum(pod.requests[CPU] for pod in world.pods.values()))
        world.add(
            f"p{number}",
            *((index, units) for index in few),
            cpu=cpu,
            priority=rng.randint(0, 2),
            created=f"2026-01-0{rng.randint(1, 3)}",
            budgets=frozenset(budget for budget in world.allowed or () if rng.random() < 0.4),
            conflicts=rng.random() < 0.05,
        )
    return world


@pytest.mark.slow
@settings(max_examples=CLUSTERS)
@given(st.integers(0, 2**48))
def test_those_that_end_are_the_ones_that_trying_every_set_finds(seed: int) -> None:
    world = any_world(random.Random(seed), 8)
    proposed = world.propose()
    if proposed is None:
        return  # The extender is not asked about this node.
    found = world.choose(proposed)
    if world.frees_cards(()):
        stays = any(world.pods[uid].conflicts for uid in proposed.uids) or world.lacks(()) - {MEMORY}
        must = world.has_other_rules and any(
            not world.lacks([each for each in proposed.uids if each != uid]) for uid in proposed.uids
        )
        assert found == (proposed if stays or must else None)
        return
    best = world.try_every_set(proposed)
    assert (None if found is None else list(found.uids)) == best
    if found is not None and best is not None:
        assert found.violations == (len(world.violating(best)) if world.allowed is not None else 0)
        assert found.violations <= proposed.violations


@settings(max_examples=CLUSTERS // 10)
@given(st.integers(0, 2**48))
def test_of_many_pods_too_enough_end_and_each_is_needed_and_no_budget_is_broken_that_was_kept(seed: int) -> None:
    world = any_world(random.Random(seed), 14)
    proposed = world.propose()
    if proposed is None or world.frees_cards(()):
        return
    found = world.choose(proposed)
    if found is None:
        unbudgeted = [uid for uid in world.lower if uid in proposed.uids or not world.pods[uid].budgets]
        assert not world.frees_cards(unbudgeted if world.allowed is not None else proposed.uids)
        return
    ended, kept = set(found.uids), Counter(world.allowed or {})
    kept |= Counter(budget for uid in proposed.uids for budget in world.pods[uid].budgets)
    counts = Counter(budget for uid in ended for budget in world.pods[uid].budgets)
    assert not world.lacks(ended)
    assert world.frees_cards(ended)
    assert all(count <= kept[budget] for budget, count in counts.items())
    if not world.has_other_rules:
        spared = [uid for uid in ended if not world.pods[uid].conflicts]
        assert not any(world.frees_cards(ended - {uid}) and not world.lacks(ended - {uid}) for uid in spared)


def test_whole_cards_are_freed_by_pods_that_were_not_proposed_too() -> None:
    node = NodeState("n")
    node.set_cards(cards(16, 16), GIB_UNIT)
    world = World(node, asks_whole(), cpu=0, total_cpu=10, memory=32, priority=100)
    world.add("a", (0, 4))
    world.add("b", (1, 4))
    world.add("c", (1, 4), priority=100)
    assert world.choose(Proposed(["b"], 0)) == Proposed(["a"], 0)
