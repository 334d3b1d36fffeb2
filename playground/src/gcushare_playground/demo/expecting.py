"""What must happen, worked out independently of the programs: a few lines of bookkeeping over the node's cards."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Ledger:
    """Units in use per card. A pod is placed on the fullest card on which it fits."""

    capacity: tuple[int, ...]
    used: list[int] = field(init=False)
    whole: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.used = [0] * len(self.capacity)

    @property
    def largest(self) -> int:
        """The units of the largest card."""
        return max(self.capacity)

    def free(self) -> list[int]:
        """The units of each card that no one uses."""
        return [size - used for size, used in zip(self.capacity, self.used, strict=True)]

    def card_for(self, units: int) -> int:
        """The card that must be taken for so many units."""
        return min((free, index) for index, free in enumerate(self.free()) if free >= units)[1]

    def whole_cards_for(self, count: int) -> tuple[int, ...]:
        """The cards that must be taken for so many whole ones: the lowest of those that no one uses."""
        return tuple([index for index, used in enumerate(self.used) if not used][:count])

    def take_whole(self, cards: tuple[int, ...]) -> None:
        """Count a pod that has these cards whole."""
        for card in cards:
            self.used[card] = self.capacity[card]
            self.whole.add(card)

    def give_back(self, cards: tuple[int, ...]) -> None:
        """Uncount a pod that had these cards for itself."""
        for card in cards:
            self.used[card] = 0
            self.whole.discard(card)

    def allocatable(self) -> tuple[int, int]:
        """The units, and the whole cards, that the kubelet counts: without those of cards in the other use."""
        shared = sum(1 for index, used in enumerate(self.used) if used and index not in self.whole)
        units = sum(size for index, size in enumerate(self.capacity) if index not in self.whole)
        return units, len(self.capacity) - shared

    def take(self, card: int, units: int) -> None:
        """Count a pod."""
        self.used[card] += units

    def refusal(self, units: int, resource: str, reason: str) -> str:
        """The scheduler's message for a pod that fits on no card.

        A node whose sum is too small is refused by the scheduler itself, in its own words; any other by the extender.
        """
        return f"0/1 nodes are available: 1 {reason if units <= sum(self.free()) else f'Insufficient {resource}'}."
