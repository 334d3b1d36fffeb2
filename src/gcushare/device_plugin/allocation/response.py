"""Builds the answer to Allocate: environment variables, device nodes, CDI names, or several of them.

The answer follows from the ids alone, but for the soft limit of the whole pod, which no call names. It is the pod's sum
if every pod that the call can be for asks for the same sum, and the container's own amount otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.cards import InventoryCard
from gcushare.core.requests import split_over_cards
from gcushare.core.units import MemoryUnit
from gcushare.node.cdi import cdi_name
from gcushare.node.container_environment import Grant, container_variables, device_paths
from gcushare.node.memory_limiter import NO_LIMITS, ContainerLimits, MemoryLimiter
from gcushare.node.node_settings import Strategy
from gcushare.vendors import Vendor
from gcushare.wire.protos import deviceplugin_pb2 as pb


@dataclass(frozen=True, slots=True)
class AllocateResponses:
    """The vendor's words and the chosen strategies; builds one container's part of Allocate's answer."""

    vendor: Vendor
    strategies: Collection[Strategy]
    limiter: MemoryLimiter | None = None
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
            for path in device_paths(self.vendor, grant):
                response.devices.add(container_path=path, host_path=path, permissions="rw")
            for each in map(str, self.driver_dirs):
                response.mounts.add(container_path=each, host_path=each, read_only=True)
        if Strategy.CDI in self.strategies:
            for card in grant.cards:
                response.cdi_devices.add(name=f"{self.vendor.cdi_kind}={cdi_name(self.vendor, card)}")
        return response

    def environment(self, grant: Grant, unit: MemoryUnit) -> Mapping[str, str]:
        """The variables of one container, by name."""
        return container_variables(self.vendor, self.strategies, grant, unit)

    def check(self, cards: Iterable[InventoryCard]) -> None:
        """Check that memory of these cards may be given.

        Raises:
            Refused: it was to be limited and cannot be.
        """
        if self.limiter is not None:
            self.limiter.check(cards)

    def limits(self, grant: Grant, unit: MemoryUnit) -> ContainerLimits:
        """The limits of one container; none if it has its cards whole, for it shares them with no other."""
        if self.limiter is None or grant.whole:
            return NO_LIMITS
        indexes = [card.index for card in grant.cards]
        shares, usable = split_over_cards(grant.units, indexes), split_over_cards(grant.usable_units, indexes)
        return self.limiter.limit(grant.cards, shares, unit, usable=usable, by_memory=grant.shares_threads)
