"""Cards, claims and prepared claims for tests of the claims driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gcushare.core.cards import Inventory, InventoryCard
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from gcushare.node.grant_form import GrantForm
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.claims import (
    Allocation,
    AllocationResult,
    ClaimSpec,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
)
from gcushare.wire.objects import ObjectMeta

DRIVER = ENFLAME.claims.driver
NODE = "node-1"


def an_inventory(*sizes_gib: int, unit: str = "1", driver: str = "", **card: Any) -> Inventory:
    """Cards of so many GiB, with more fields of a card."""
    memory_unit = parse_memory_unit(unit)
    cards = tuple(
        InventoryCard(
            index=index, uuid=f"uuid-{index}", memory_bytes=size * GIB, units=memory_unit.units_in(size * GIB), **card
        )
        for index, size in enumerate(sizes_gib)
    )
    return Inventory(unit=memory_unit, cards=cards, driver=driver)


def a_result(device: str, gib: int = 0, *, pool: str = NODE, request: str = "card") -> AllocationResult:
    """A device that a claim was allocated, for its request ``card`` (memory) or ``whole`` (whole cards)."""
    consumed = {"memory": f"{gib}Gi"} if gib else {}
    return AllocationResult(request=request, driver=DRIVER, pool=pool, device=device, consumed_capacity=consumed)


def whole_result(device: str, gib: int = 16) -> AllocationResult:
    """A card that a claim was allocated whole."""
    return a_result(device, gib, request="whole")


def a_claim(uid: str, *results: AllocationResult) -> ResourceClaim:
    """A claim that the scheduler has allocated, and reserved for a pod."""
    status = ClaimStatus(
        allocation=Allocation(devices=DeviceAllocation(results=results)),
        reserved_for=(ConsumerReference(resource="pods", name=uid, uid=uid),),
    )
    requests = (
        DeviceRequest(name="card", exactly=ExactRequest(device_class_name=ENFLAME.claims.memory_class)),
        DeviceRequest(name="whole", exactly=ExactRequest(device_class_name=ENFLAME.claims.whole_class)),
    )
    spec = ClaimSpec(devices=DeviceClaim(requests=requests))
    return ResourceClaim(metadata=ObjectMeta(name=uid, namespace="default", uid=uid), spec=spec, status=status)


def prepared_claims(
    root: Path,
    strategies: tuple[Strategy, ...] = (Strategy.ENV,),
    *,
    checkpoint: CheckpointFile | None = None,
    cdi: ClaimCdiFiles | None = None,
) -> PreparedClaims:
    """What a driver that starts on this folder has prepared; nothing is loaded yet."""
    return PreparedClaims(
        GrantForm(ENFLAME, strategies),
        NODE,
        checkpoint or CheckpointFile(root / "plugin"),
        cdi or ClaimCdiFiles(root / "cdi", DRIVER),
    )
