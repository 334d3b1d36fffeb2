"""What must happen, worked out independently of the programs: a few lines of bookkeeping over nodes and cards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gcushare_playground.plans import ClusterPlan


@dataclass(slots=True)
class Ledger:
    """Units in use per node and card. A pod is placed on the fullest card of a node on which it fits."""

    capacity: dict[str, tuple[int, ...]]
    used: dict[str, list[int]] = field(init=False)
    whole: dict[str, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.whole = {name: set() for name in self.capacity}
        self.used = {name: [0] * len(cards) for name, cards in self.capacity.items()}

    @classmethod
    def of(cls, plan: ClusterPlan) -> Ledger:
        """Start with an empty cluster."""
        return cls({node.name: plan.units_per_card(node) for node in plan.nodes})

    def total(self, node: str) -> int:
        return sum(self.capacity[node])

    def used_on(self, node: str) -> int:
        return sum(self.used[node])

    def candidates(self, units: int) -> dict[str, int]:
        """The nodes among which the scheduler may choose, each with the card that must be taken there.

        A node with a card in use that fits comes before one whose card would be opened; among equals the scheduler's
        own scores decide, and they see no cards.
        """
        fitting = {node: card for node in self.capacity if (card := self._card(node, units)) is not None}
        shared = {node: card for node, card in fitting.items() if self.used[node][card]}
        return shared or fitting

    def candidates_whole(self, count: int) -> dict[str, tuple[int, ...]]:
        """The nodes with so many cards that no one uses, each with those that must be taken: the lowest."""
        empty = {node: [index for index, used in enumerate(cards) if not used] for node, cards in self.used.items()}
        return {node: tuple(cards[:count]) for node, cards in empty.items() if len(cards) >= count}

    def take_whole(self, node: str, cards: tuple[int, ...]) -> None:
        """Count a pod that has these cards whole."""
        for card in cards:
            self.used[node][card] = self.capacity[node][card]
            self.whole[node].add(card)

    def give_back(self, node: str, cards: tuple[int, ...]) -> None:
        """Uncount a pod that had these cards whole."""
        for card in cards:
            self.used[node][card] = 0
            self.whole[node].discard(card)

    def allocatable(self, node: str) -> tuple[int, int]:
        """The units, and the whole cards, that the kubelet counts: without those of cards in the other use."""
        sizes, whole = self.capacity[node], self.whole[node]
        shared = sum(1 for index, used in enumerate(self.used[node]) if used and index not in whole)
        return sum(size for index, size in enumerate(sizes) if index not in whole), len(sizes) - shared

    def take(self, node: str, card: int, units: int) -> None:
        """Count a pod."""
        self.used[node][card] += units

    def refusal(self, units: int, resource: str, reason: str) -> str:
        """The scheduler's message for a pod that fits on no card.

        A node whose sum is too small is refused by the scheduler itself, in its own words; the others by the extender.
        """
        reasons = Counter(
            reason if units <= self.total(node) - self.used_on(node) else f"Insufficient {resource}"
            for node in self.capacity
        )
        parts = sorted(f"{count} {words}" for words, count in reasons.items())
        return f"0/{len(self.capacity)} nodes are available: {', '.join(parts)}."

    def _card(self, node: str, units: int) -> int | None:
        free = [
            (size - used, index)
            for index, (size, used) in enumerate(zip(self.capacity[node], self.used[node], strict=True))
            if size - used >= units
        ]
        return min(free)[1] if free else None
