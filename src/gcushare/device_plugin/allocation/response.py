"""How a container gets its card: environment variables, device nodes, or CDI names; any of them together.

The answer follows from the ids alone. The one exception is the soft limit of the whole pod, which no call names: it is
given only where every pod that can be meant asks for the same sum, and is the container's own otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.cards import InventoryCard
from gcushare.core.requests import split_over_cards
from gcushare.core.units import MemoryUnit
from gcushare.core.wording import index_text
from gcushare.device_plugin.allocation.cdi import cdi_name
from gcushare.device_plugin.choices import Strategy
from gcushare.device_plugin.mps.limits import NO_LIMITS, ContainerLimits, MpsLimiter
from gcushare.vendors import Vendor
from gcushare.wire.protos import deviceplugin_pb2 as pb

CARD_BYTES = "GCUSHARE_CARD_MEMORY_BYTES"
"""The whole memory of the container's card (the first of several): what a framework takes a fraction of."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container was given: ``units`` of memory, or its cards whole. ``pod_units``: None where ambiguous.

    ``shares_threads``: its pod asked for compute in proportion to its memory.
    """

    cards: tuple[InventoryCard, ...]
    units: int
    pod_units: int | None = None
    whole: bool = False
    shares_threads: bool = False


@dataclass(frozen=True, slots=True)
class AllocateResponses:
    """The vendor's words and the chosen strategies; builds one container's part of Allocate's answer."""

    vendor: Vendor
    strategies: Collection[Strategy]
    limiter: MpsLimiter | None = None
    driver_dirs: tuple[Path, ...] = ()
    """Directories and files of the host that the strategy ``devices`` brings into containers, read-only."""

    def build(self, grant: Grant, unit: MemoryUnit) -> pb.ContainerAllocateResponse:
        """Build the response for one container."""
        response = pb.ContainerAllocateResponse()
        for name, value in self.environment(grant, unit).items():
            response.envs[name] = value
        limits = self.limits(grant, unit)
        for name, value in limits.variables.items():
            response.envs[name] = value
        for inside, outside in limits.mounts.items():
            response.mounts.add(container_path=inside, host_path=outside, read_only=False)
        if Strategy.DEVICES in self.strategies:
            nodes = self.vendor.device_nodes
            for path in (*(nodes.card.format(index=card.index) for card in grant.cards), *nodes.control):
                response.devices.add(container_path=path, host_path=path, permissions="rw")
            for each in map(str, self.driver_dirs):
                response.mounts.add(container_path=each, host_path=each, read_only=True)
        if Strategy.CDI in self.strategies:
            for card in grant.cards:
                response.cdi_devices.add(name=f"{self.vendor.cdi_kind}={cdi_name(self.vendor, card.card)}")
        return response

    def environment(self, grant: Grant, unit: MemoryUnit) -> Mapping[str, str]:
        """The variables of one container, by name."""
        names = self.vendor.environment
        variables: dict[str, str] = {}
        if Strategy.ENV in self.strategies:
            variables[names.visible] = ",".join(self._visible(card) for card in grant.cards)
        if not grant.whole:
            pod_units = grant.units if grant.pod_units is None else grant.pod_units
            variables[names.card_index] = index_text(card.index for card in grant.cards)
            variables[names.card_units] = str(grant.cards[0].units)
            variables[names.pod_units] = str(pod_units)
            variables[names.container_units] = str(grant.units)
            variables[names.container_bytes] = str(unit.bytes_of(grant.units))
            variables[CARD_BYTES] = str(grant.cards[0].card.memory_bytes)
        return variables

    def check(self, cards: Iterable[InventoryCard]) -> None:
        """Check that memory of these cards may be given.

        Raises:
            Refused: it was to be limited and cannot be.
        """
        if self.limiter is not None:
            self.limiter.check(cards)

    def limits(self, grant: Grant, unit: MemoryUnit) -> ContainerLimits:
        """What limits one container; nothing where it has its cards whole: there is no neighbour."""
        if self.limiter is None or grant.whole:
            return NO_LIMITS
        shares = split_over_cards(grant.units, [card.index for card in grant.cards])
        cards = [(card, unit.bytes_of(shares[card.index])) for card in grant.cards]
        percent = None
        if grant.shares_threads:
            # Of the fullest share: what remains of a card is no neighbour's yet, and rounding leaves at least one.
            percent = max(1, *(shares[card.index] * 100 // max(1, card.units) for card in grant.cards))
        return self.limiter.limit(cards, percent)

    def _visible(self, card: InventoryCard) -> str:
        return card.card.uuid if self.vendor.visible_by_uuid and card.card.uuid else str(card.index)
