"""Chooses the pods of one node that end for a preemptor, with all that a kube-scheduler's own filters need of the node.

kube-scheduler counts a node's card memory as one sum, so the pods that it proposes may free units on the wrong cards.
Here all less important pods of the node may be chosen that hold its cards, those proposed among them. The chosen ones
make room on the cards, and every other resource that the preemptor asks for fits too. No disruption budget is broken
that kube-scheduler's proposal kept. Of all such sets the best has the fewest broken budgets, then the rank of
``victims``.

That set is found among few pods (``EXACT_WORK`` sets), and for one card where card memory is all that lacks. Otherwise
a better set may exist than the one found, but each of its pods is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gcushare.core.assignments import PodRef
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import RoomAfterNominees, fits_after_nominees
from gcushare.core.preemption.victims import choose_victims, rank_victims
from gcushare.core.requests import CardRequest

EXACT_WORK = 512
"""Sets of pods that are tried one by one, so of up to 9 pods."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod of a node: what it asks for by resource, in thousandths, and the disruption budgets that it counts for.

    ``conflicts``: it may keep the preemptor off the node whatever is free, by a host port or its anti-affinity.
    """

    ref: PodRef
    requests: Mapping[str, int]
    budgets: frozenset[str] = frozenset()
    conflicts: bool = False


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A node for one preemptor. ``pods`` are all of it, by uid.

    ``missing`` is what has to become free of each resource that the preemptor asks for, in thousandths; 0 or less if it
    fits. ``card_resources`` are those whose cards the ledger knows. ``allowed`` are the disruptions that each budget
    allows, None if the budgets cannot be read. ``has_other_rules``: something else than amounts may decide whether the
    preemptor fits, such as its volumes.
    """

    pods: Mapping[str, Occupant]
    missing: Mapping[str, int]
    card_resources: frozenset[str]
    allowed: Mapping[str, int] | None = None
    has_other_rules: bool = False


@dataclass(frozen=True, slots=True)
class Proposed:
    """kube-scheduler's own choice on a node: uids, the most important first, and how many of them break a budget."""

    uids: Sequence[str] = ()
    violations: int = 0


class Choice:
    """The choice of the pods that end on one node."""

    def __init__(
        self,
        node: NodeState,
        preemptor: PodRef,
        request: CardRequest,
        here: Occupancy,
        proposed: Proposed,
        room: RoomAfterNominees,
    ) -> None:
        self._node, self._request, self._here, self._room = node, request, here, room
        self._leaving = room.leaving
        self._given = proposed
        self._lower = lower = {uid: pod for uid, pod in here.pods.items() if pod.ref.priority < preemptor.priority}
        self._proposed = [lower[uid] for uid in proposed.uids if uid in lower]
        self._pool = [pod for uid, pod in lower.items() if uid in node.assignments and here.allowed is not None]
        self._pool += [pod for pod in self._proposed if pod not in self._pool]
        self._quota = Counter(here.allowed or {})
        self._lenient = self._quota | Counter(budget for pod in self._proposed for budget in pod.budgets)

    def make(self) -> Proposed | None:
        """Choose them; None if none may end there, because that would not help.

        kube-scheduler's proposal stays as it is if the cards have room and something else lacks: preemption for that is
        its own business. If nothing else lacks, its count of the card memory is wrong, and no pod ends for that.

        Pods that are leaving end in any case. They are named if no other pod has to end: then the preemptor waits for
        them as a nominee.
        """
        must = self._needed_otherwise()
        for_cards = choose_victims(self._node, self._request, _refs(self._pool), room=self._room)
        if for_cards is None:
            return None
        if not for_cards and fits_after_nominees(self._node, self._request, self._room.left):
            lacks_more = self._lacking(()) - self._here.card_resources
            return self._given if must or lacks_more else None
        chosen = self._search(must)
        if chosen == [] and not (chosen := [pod for uid, pod in self._lower.items() if uid in self._leaving]):
            self._room = replace(self._room, leaving=frozenset())  # kube-scheduler takes no answer without a pod.
            chosen = self._search(must)
        return self._answer(chosen) if chosen else None

    def _needed_otherwise(self) -> list[Occupant]:
        """The proposed pods that have to end for something else than an amount."""

        def is_needed(pod: Occupant) -> bool:
            others = [each for each in self._proposed if each is not pod]
            return pod.conflicts or (self._here.has_other_rules and not self._lacking(others))

        return [pod for pod in self._proposed if pod.ref.uid not in self._room.leaving and is_needed(pod)]

    def _lacking(self, ended: Collection[Occupant]) -> set[str]:
        """The resources that the preemptor still lacks once these pods and those that are leaving have ended."""
        leaving = (pod for uid in self._leaving if (pod := self._here.pods.get(uid)) is not None)
        free: Counter[str] = Counter()
        for pod in {pod.ref.uid: pod for pod in (*leaving, *ended)}.values():
            free.update(pod.requests)
        return {name for name, amount in self._here.missing.items() if amount > free[name]}

    def _search(self, must: Sequence[Occupant]) -> list[Occupant] | None:
        """The best set, without pods that are leaving; None if there is none."""
        pool = [pod for pod in self._pool if pod.ref.uid not in self._room.leaving]
        if 1 << len(pool) <= EXACT_WORK:
            return self._try_all(pool, must)
        found, proposed = None, [pod for pod in self._proposed if pod in pool]
        for quota, ended in ((self._quota, must), (self._lenient, must), (self._lenient, proposed)):
            for few in (pool, list(_within(pool, quota, ended))):
                found = found if found is not None else self._try(quota, few, ended)
        return None if found is None else self._spare(found, must)

    def _try(
        self, quota: Mapping[str, int], pool: Iterable[Occupant], ended: Collection[Occupant]
    ) -> list[Occupant] | None:
        """A good set for the cards, if it is enough and breaks no budget."""
        open_ = [pod for pod in pool if all(quota[budget] > 0 for budget in pod.budgets) or pod in ended]
        chosen = choose_victims(self._node, self._request, _refs(open_), room=self._room, ended=_refs(ended))
        if chosen is None:
            return None
        pods = [self._here.pods[ref.uid] for ref in chosen]
        return pods if not self._lacking(pods) and _is_within(pods, quota) else None

    def _try_all(self, pool: Sequence[Occupant], must: Sequence[Occupant]) -> list[Occupant] | None:
        others = [pod for pod in pool if pod not in must]
        sets = [[*must, *more] for count in range(len(others) + 1) for more in combinations(others, count)]
        kept = [chosen for chosen in sets if _is_within(chosen, self._lenient) and not self._lacking(chosen)]
        kept.sort(key=lambda chosen: (self._count_violations(chosen), rank_victims(_refs(chosen))))
        return next((chosen for chosen in kept if self._frees_cards(chosen)), None)

    def _spare(self, chosen: Sequence[Occupant], must: Collection[Occupant]) -> list[Occupant]:
        """Leave out each pod that is not needed, the most important first."""
        left = list(chosen)
        for pod in _most_important_first(chosen):
            fewer = [each for each in left if each is not pod]
            if pod not in must and not self._lacking(fewer) and self._frees_cards(fewer):
                left = fewer
        return left

    def _frees_cards(self, ended: Collection[Occupant]) -> bool:
        return choose_victims(self._node, self._request, (), room=self._room, ended=_refs(ended)) is not None

    def _answer(self, chosen: Collection[Occupant]) -> Proposed:
        ordered = _most_important_first(chosen)
        violations = self._count_violations(ordered) if self._here.allowed is not None else self._given.violations
        return Proposed([pod.ref.uid for pod in ordered], min(violations, len(ordered)))

    def _count_violations(self, chosen: Collection[Occupant]) -> int:
        """How many of these break a budget, as kube-scheduler counts them; those that are leaving break none."""
        left, found = Counter(self._here.allowed or {}), 0
        for pod in _most_important_first(pod for pod in chosen if pod.ref.uid not in self._room.leaving):
            left.subtract(pod.budgets)
            found += any(left[budget] < 0 for budget in pod.budgets)
        return found


def _refs(pods: Iterable[Occupant]) -> list[PodRef]:
    return [pod.ref for pod in pods]


def _most_important_first(pods: Iterable[Occupant]) -> list[Occupant]:
    """kube-scheduler expects this order: it takes the first of a node's victims for the most important."""
    return sorted(pods, key=lambda pod: (-pod.ref.priority, pod.ref.created, pod.ref.uid))


def _is_within(chosen: Iterable[Occupant], quota: Mapping[str, int]) -> bool:
    """Whether no budget has more of these pods than its quota."""
    counts = Counter(budget for pod in chosen for budget in pod.budgets)
    return all(count <= quota[budget] for budget, count in counts.items())


def _within(pool: Iterable[Occupant], quota: Mapping[str, int], ended: Iterable[Occupant]) -> Iterator[Occupant]:
    """As many pods as no budget's quota is too small for, the least important first; ``ended`` count already."""
    used = list(ended)
    for pod in reversed(_most_important_first(pool)):
        if pod not in used and _is_within([*used, pod], quota):
            used.append(pod)
            yield pod
