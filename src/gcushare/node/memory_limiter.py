"""Decide for each card whether memory can be limited there, whatever limits it, and what follows if it cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Card, Health, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.units import MemoryUnit
from gcushare.node.container_environment import Grant
from gcushare.node.node_settings import Fallback
from gcushare.node.pods import CardCounts


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """A container's variables, and the host folders that are mounted, by their path in the container."""

    variables: Mapping[str, str]
    mounts: Mapping[str, str]


NO_LIMITS = ContainerLimits({}, {})


class MemoryLimiter(ABC):
    """What limits memory on this node: MPS, or NVIDIA's driver."""

    def __init__(self, fallback: Fallback) -> None:
        self._fallback = fallback

    @property
    def refuses(self) -> bool:
        """Whether cards without a limit take no new pods."""
        return self._fallback is not Fallback.UNLIMITED

    @property
    def effect(self) -> str:
        """What follows where memory cannot be limited."""
        return {
            Fallback.REFUSE: "cards take no new pods",
            Fallback.UNLIMITED: "pods start without a limit",
            Fallback.MPS: "cards that neither the driver nor MPS limits take no new pods",
        }[self._fallback]

    @abstractmethod
    def problem_of(self, card: Card) -> str:
        """Why memory of a card cannot be limited now; "" if it can."""

    @abstractmethod
    def limit(self, grant: Grant, unit: MemoryUnit, units: CardCounts, usable: CardCounts) -> ContainerLimits:
        """Return what a container gets that has a grant; nothing if one of the cards has no limit.

        ``units``: those granted of each card; ``usable``: those that it may use.
        """

    def close_cards(self, found: CardsSnapshot) -> CardsSnapshot:
        """Return the cards to offer: those without a limit take no new pods, unless the admin lets them."""
        if not self.refuses:
            return found
        cards = tuple(
            msgspec.structs.replace(each, health=Health.UNHEALTHY, reason=f"memory cannot be limited: {problem}")
            if each.health is Health.HEALTHY and (problem := self.problem_of(each))
            else each
            for each in found.cards
        )
        return replace(found, cards=cards)

    def check(self, cards: Iterable[InventoryCard]) -> None:
        """Check that memory of these cards can be limited, or need not be.

        Raises:
            Refused: it cannot, and such cards take no new pods.
        """
        problems = {card.index: problem for card in cards if (problem := self.problem_of(card))}
        if problems and self.refuses:
            cards_text = "; ".join(f"card {index}: {problem}" for index, problem in sorted(problems.items()))
            is_open = self._fallback is Fallback.UNLIMITED  # and refuses for a while all the same
            remedy = "" if is_open else "; --limit-fallback unlimited lets pods start without a limit"
            raise Refused(f"memory cannot be limited ({cards_text}){remedy}")
