"""How a container gets its card: environment variables, device nodes, or CDI names; any of them together.

The answer follows from the ids alone. The one exception is the soft limit of the whole pod, which no call names: it is
given only where every pod that can be meant asks for the same sum, and is the container's own otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gcushare.core.cards import InventoryCard
from gcushare.core.units import MemoryUnit
from gcushare.vendors import Vendor

if TYPE_CHECKING:
    from gcushare.wire.protos import deviceplugin_pb2 as pb


class Strategy(enum.Enum):
    """``env``: the container toolkit reads a variable. ``devices``: the device nodes. ``cdi``: names of a CDI spec."""

    ENV = "env"
    DEVICES = "devices"
    CDI = "cdi"


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container was given: ``units`` of memory, or its cards whole. ``pod_units``: None where ambiguous."""

    cards: tuple[InventoryCard, ...]
    units: int
    pod_units: int | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class AllocateResponses:
    """The vendor's words and the chosen strategies; builds one container's part of Allocate's answer."""

    vendor: Vendor
    strategies: Collection[Strategy]

    def build(self, grant: Grant, unit: MemoryUnit) -> pb.ContainerAllocateResponse:
        """Build the response for one container."""
        from gcushare.wire.protos import deviceplugin_pb2 as pb  # here: settings import this module, not the messages

        response = pb.ContainerAllocateResponse()
        for name, value in self.environment(grant, unit).items():
            response.envs[name] = value
        if Strategy.DEVICES in self.strategies:
            for path in self.device_paths(grant):
                response.devices.add(container_path=path, host_path=path, permissions="rw")
        if Strategy.CDI in self.strategies:
            for card in grant.cards:
                response.cdi_devices.add(name=f"{self.vendor.cdi_kind}={card.index}")
        return response

    def environment(self, grant: Grant, unit: MemoryUnit) -> Mapping[str, str]:
        """The variables of one container, by name."""
        names = self.vendor.environment
        variables: dict[str, str] = {}
        if Strategy.ENV in self.strategies:
            variables[names.visible] = ",".join(self._visible(card) for card in grant.cards)
        if not grant.whole:
            pod_units = grant.units if grant.pod_units is None else grant.pod_units
            variables[names.card_index] = ",".join(str(card.index) for card in grant.cards)
            variables[names.card_units] = str(grant.cards[0].units)
            variables[names.pod_units] = str(pod_units)
            variables[names.container_units] = str(grant.units)
            variables[names.container_bytes] = str(unit.bytes_of(grant.units))
        return variables

    def device_paths(self, grant: Grant) -> list[str]:
        """The device nodes of the cards, then the control nodes."""
        nodes = self.vendor.device_nodes
        return [*(nodes.card.format(index=card.index) for card in grant.cards), *nodes.control]

    def _visible(self, card: InventoryCard) -> str:
        return card.card.uuid if self.vendor.visible_by_uuid and card.card.uuid else str(card.index)
