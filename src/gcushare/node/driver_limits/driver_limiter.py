"""Find out on which cards the driver keeps limits, and decide what containers get so that their programs see them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.health import CardsSnapshot
from gcushare.cards.ports import LimitSource
from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import DeviceError
from gcushare.core.units import MemoryUnit
from gcushare.node.container_environment import Grant
from gcushare.node.driver_limits.control_groups import GroupLimits, PodGroups, is_hierarchical
from gcushare.node.memory_limiter import NO_LIMITS, ContainerLimits, MemoryLimiter
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.node_settings import Fallback
from gcushare.node.pods import CardCounts

LIMIT_VARIABLE = "NVIDIA_GPU_MEMORY_LIMIT"
"""Whole MiB: NVIDIA's container toolkit sets them as the hard limit of the container's own group. Its sister with
REQUEST in place of LIMIT would set a soft limit, which the driver adds to all groups above."""
_MIB = 1 << 20


class DriverLimiter(MemoryLimiter):
    """Limits memory by the driver of ``source``. `DriverLimits` has it checked again and again, and sets the limits.

    ``mps`` limits memory where the driver keeps no limits; None if nothing does.
    """

    def __init__(self, fallback: Fallback, source: LimitSource, mps: MpsLimiter | None = None) -> None:
        super().__init__(fallback)
        self.source = source
        self.mps = mps
        self.groups = GroupLimits(source)
        self.node_problem = "it was not checked yet whether the driver keeps memory limits"
        self.card_problems: dict[str, str] = {}
        """By uuid, why the driver keeps no limits on that card."""
        self.cards: Mapping[str, Card] = {}
        """The cards of the library by uuid, as it listed them last."""
        self.is_hierarchical = False
        """Whether the kernel's controller keeps them: only then a container's own limit stays within its pod's."""
        self._is_checked = False

    @property
    def driver_problem(self) -> str:
        """Why the driver keeps no limits, of the node and of cards; "" if it does."""
        names = {card.uuid: f"card {card.index}" for card in self.cards.values()}
        cards = [f"{names.get(uuid, uuid)}: {why}" for uuid, why in sorted(self.card_problems.items())]
        return self.node_problem or "; ".join(cards)

    @property
    def problem(self) -> str:
        """Why memory is not limited, of the node and of cards; "" if it is."""
        if self.mps is None:
            return self.driver_problem
        of_mps = self.mps.daemon_problem or "; ".join(
            f"card {card.index}: {why}" for card in self.cards.values() if (why := self.problem_of(card))
        )
        return f"{self.driver_problem}; {of_mps}" if self.driver_problem and of_mps else ""

    @property
    def is_counting(self) -> bool:
        """Whether the driver keeps limits on a card at all, and so counts what pods use."""
        return not self.node_problem and not self.cards.keys() <= self.card_problems.keys()

    def is_kept_by_mps(self, indexes: Collection[int]) -> bool:
        """Whether MPS limits a pod with these cards, because the driver does not."""
        uuids = {card.uuid for card in self.cards.values() if card.index in indexes}
        return self.mps is not None and bool(self.node_problem or not uuids.isdisjoint(self.card_problems))

    def problem_of(self, card: Card) -> str:
        problem = self._driver_problem_of(card)
        if not problem or self.mps is None:
            return problem
        return (of_mps := self.mps.problem_of(card)) and f"{problem}; {of_mps}"

    def _driver_problem_of(self, card: Card) -> str:
        return self.node_problem or self.card_problems.get(card.uuid, "")

    def close_cards(self, found: CardsSnapshot) -> CardsSnapshot:
        if self.mps is not None:
            self.mps.close_cards(found)  # it reads there which of them MPS cannot limit
        return super().close_cards(found)

    def limit(self, grant: Grant, unit: MemoryUnit, units: CardCounts, usable: CardCounts) -> ContainerLimits:
        has_problem = any(map(self._driver_problem_of, grant.cards))
        if has_problem and self.mps is not None:
            return self.mps.limit(grant, unit, units, usable)
        if has_problem or not self.is_hierarchical:
            return NO_LIMITS
        least = min(unit.bytes_of(usable[card.index]) for card in grant.cards)  # one amount for all cards
        return ContainerLimits({LIMIT_VARIABLE: str(max(1, least // _MIB))}, {})

    async def find(self, inventory: Inventory | None, index: int) -> Card:
        """Return a card of the node as its library lists it.

        Raises:
            DeviceError: it does not.
        """
        uuid = next((each.uuid for each in inventory.cards if each.index == index), "") if inventory else ""
        if uuid not in self.cards:
            await self._list_cards()
        if uuid not in self.cards:
            raise DeviceError(f"card {index} is not listed by its library")
        return self.cards[uuid]

    async def try_cards(self, groups: PodGroups) -> bool:
        """Find out where limits can be kept, by setting one that the groups of all pods have anyway: none.

        Returns whether that is new.
        """
        problems: dict[str, str] = {}
        node_problem = groups.problem
        try:
            if groups.top is not None:
                self.is_hierarchical = is_hierarchical(groups.top)
                await self._list_cards()
                for uuid, card in self.cards.items():
                    if problem := await self._check_card(card, str(groups.top)):
                        problems[uuid] = problem
        except DeviceError as error:
            node_problem = str(error)
        self._is_checked = self._is_checked or not node_problem
        before = (self.node_problem, self.card_problems)
        self.node_problem, self.card_problems = node_problem, problems
        return before != (node_problem, problems)

    async def _check_card(self, card: Card, top: str) -> str:
        try:
            found = await self.source.group_memory(card, top)
            # An admin's own limit of all pods stays as it is.
            await self.source.limit_group(card, top, found.hard_bytes if found is not None else None)
        except LibraryCallError as error:
            return str(error)
        except DeviceError as error:  # which says nothing about limits
            return self.card_problems.get(card.uuid, "" if self._is_checked else str(error))
        return ""

    async def _list_cards(self) -> None:
        self.cards = {card.uuid: card for card in (await self.source.list_cards()).cards}
