"""Choose the pods to wake: as many as would fit one after the other, in the scheduler's order.

Room that is kept for a woken pod delays the others. So after a few pods in a row that were woken and not bound, the
pods of their namespace come after those of all others, until one of them is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice

from gcushare.core.nodes import Assignment, NodeState
from gcushare.core.placement import POLICIES, choose_cards, prefer_choice
from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.waking.refused_pods import RefusedGroup, RefusedPod, RefusedPods

# With these limits a choice takes some milliseconds, and 160 pods are chosen a second.
_PLACED_PER_CHOICE = 16
_PASSED_PER_CHOICE = 512
"""Pods that hold a reservation. They cost next to nothing, and those behind them get their turn."""
_NODES_PER_GROUP = 256
_COMPARED = 16
"""Nodes with room that are compared for one pod: the count of pods that fit hardly depends on which node each takes."""

FREE_FAILURES = 4
"""Pods of a namespace in a row that may be woken and not bound before its other pods come last."""
FORGET_S = 600.0
"""A namespace starts over when none of its pods failed for so long."""


def choose_pods(
    refused: RefusedPods,
    state: VendorState,
    attempts: Iterable[tuple[RefusedPod, str]],
    is_ready: Callable[[RefusedPod, RefusedGroup], bool],
    deferred: Collection[str],
) -> list[tuple[RefusedPod, RefusedGroup, str]]:
    """Choose pods that would fit, each in addition to those before it; with their groups and the nodes with room.

    ``attempts``: pods that were woken already, with the node whose room is kept for them. ``is_ready``: whether a pod
    may be woken now; if not, its room is kept all the same. ``deferred``: namespaces whose pods come last.
    """
    line = [
        (_key(pod, deferred), number, group)
        for number, group in enumerate(refused.groups.values())
        if group.room and (pod := group.first(deferred)) is not None
    ]
    if not line:
        return []
    heapify(line)
    trial = _Trial(state.ledger.nodes)
    for pod, node in attempts:
        if state.ledger.assignment(pod.uid) is None:
            trial.place(pod.request, [node])
    chosen: list[tuple[RefusedPod, RefusedGroup, str]] = []
    aside: list[tuple[RefusedGroup, RefusedPod]] = []
    rooms: dict[int, list[str]] = {}
    placed = passed = 0
    while line and placed < _PLACED_PER_CHOICE and passed < _PASSED_PER_CHOICE:
        _, number, group = heappop(line)
        candidate = group.first(deferred)
        if candidate is None:
            continue
        group.remove(candidate)
        if state.find_request(candidate.uid) is None:
            refused.forget(candidate.uid)
        elif state.ledger.assignment(candidate.uid) is not None:
            passed += 1
            aside.append((group, candidate))
        else:
            placed += 1
            aside.append((group, candidate))
            if (names := rooms.get(number)) is None:
                names = rooms[number] = sorted(islice(group.room, _NODES_PER_GROUP), reverse=True)
            found = trial.place(candidate.request, names)
            if found is None:
                continue  # The next pod of the group has no room either.
            if is_ready(candidate, group):
                chosen.append((candidate, group, found))
        if (following := group.first(deferred)) is not None:
            heappush(line, (_key(following, deferred), number, group))
    for group, candidate in aside:
        group.add(candidate)
    return chosen


def _key(pod: RefusedPod, deferred: Collection[str]) -> tuple[bool, tuple[int, str, int]]:
    return pod.namespace in deferred, pod.order


class _Trial:
    """The nodes of a ledger, to which pods are added on trial; the ledger itself does not change."""

    def __init__(self, nodes: Mapping[str, NodeState]) -> None:
        self._nodes = nodes
        self._copies: dict[str, NodeState] = {}

    def place(self, asked: SchedulingRequest, names: list[str]) -> str | None:
        """Give a pod cards of one of these nodes, by the shape's policy; returns the node, or None if none has room.

        ``names`` is read from its end: nodes at the end that cannot hold the shape any more are removed from it.
        """
        request, score = asked.cards, POLICIES[asked.shape.node_policy].score_node
        while names and self._find_fitting(names[-1], request) is None:
            names.pop()
        able = [node for name in names[-_COMPARED:] if (node := self._find_fitting(name, request)) is not None]
        if not able:
            return None
        best = min(able, key=lambda node: (-prefer_choice(node, request, score(node, request)), node.name))
        cards = choose_cards(best, request, POLICIES[asked.card_policy].rank_card)
        if cards is None:
            return None
        twin = self._copies.get(best.name)
        if twin is None:
            twin = self._copies[best.name] = best.copy()
        if asked.pod.uid not in twin.assignments:
            twin.add(Assignment(asked.pod, best.name, tuple(card.grant(request) for card in cards)))
        return best.name

    def _find_fitting(self, name: str, request: CardRequest) -> NodeState | None:
        node = self._copies.get(name) or self._nodes.get(name)
        return node if node is not None and node.known and node.fits(request) else None


class UnboundWakes:
    """Which namespaces come last, because their woken pods were not bound lately."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}
        """By namespace: failures in a row, and when the last one was."""
        self.deferred: set[str] = set()
        """The namespaces whose pods come last."""

    def record(self, namespace: str, now_s: float, *, is_bound: bool) -> None:
        """Record the end of an attempt to wake a pod."""
        if is_bound:
            self._failures.pop(namespace, None)
            self.deferred.discard(namespace)
            return
        failures = self._failures.get(namespace, (0, 0.0))[0] + 1
        self._failures[namespace] = (failures, now_s)
        if failures >= FREE_FAILURES:
            self.deferred.add(namespace)

    def drop_old(self, now_s: float) -> None:
        """Forget namespaces without a failure for ``FORGET_S``."""
        for namespace, (_, last_s) in list(self._failures.items()):
            if now_s >= last_s + FORGET_S:
                del self._failures[namespace]
                self.deferred.discard(namespace)
