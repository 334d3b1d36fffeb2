"""Cards and inventories: what hardware a node has and how much of it may be granted.

A card is a `Card`, as its vendor's library names it; an `InventoryCard`, with its health and what it offers, from the
monitor on; in the ledger a `nodes.CardState`, with what it holds. Other types of it are forms on the wire.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.core.units import MemoryUnit
from gcushare.core.wording import utc_text

SERVES_MEMORY = "memory"
SERVES_WHOLE = "whole"
BOTH_MODES = (SERVES_MEMORY, SERVES_WHOLE)
"""What a node's plugin may hand out of its cards: memory units, whole cards, or either."""


class Health(enum.Enum):
    """Whether new pods may be placed on a card; the values are the kubelet's words."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One physical accelerator, as its vendor's library names it.

    ``index`` is the minor number (``/dev/gcu0`` is 0); ``uuid`` names the hardware: the same index with another uuid
    is another card. ``numa_node`` is None, ``link_group`` "" where they are unknown; cards of one link group
    have a direct link or one switch between them. ``limit_problem``: why its vendor cannot limit what a process
    allocates on it, "" where it can or no one asked.
    """

    index: int
    uuid: str
    memory_bytes: int
    model: str = ""
    serial: str = ""
    pci_address: str = ""
    numa_node: int | None = None
    link_group: str = ""
    limit_problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """That a card takes no new pods of one use: containers of a pod that is gone may still have it in the other.

    ``use`` is the one that it is closed to, ``SERVES_MEMORY`` or ``SERVES_WHOLE``. ``until``: when it opens at the
    latest, in seconds since the epoch; 0 while that is open, because the node still sees the pod.
    """

    use: str
    pod: str
    until: int = 0


def describe_closure(closure: Closure) -> str:
    """Say to what a card is closed, for which pod, and until when."""
    use = "pods that share" if closure.use == SERVES_MEMORY else "pods that want it whole"
    end = f"until {utc_text(closure.until)} at the latest" if closure.until else "as long as the node sees them"
    return f"closed to {use}, {end}, for containers of {closure.pod}, which was deleted by force"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedHolder:
    """A pod to which the kubelet gave cards and of which no record can be written on the pod itself.

    Its request is one that is not granted, or the plugin does not see it. ``pod`` is ``namespace/name``, else what the
    kubelet calls it; ``units`` are those of memory by card index, ``whole`` the cards that it has whole.
    """

    pod: str
    units: Mapping[int, int]
    whole: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryCard:
    """A card of a node with its health, and what it offers.

    ``units`` may be granted, ``reserved_units`` are kept back for the driver; both are 0 until the node's plugin has
    decided on them. ``cordoned`` is an admin's decision (no new pods); ``health`` is the hardware's. Pods that run
    there stay in both. ``closures`` keep one use out for a while, and are in the order in which they end.
    """

    card: Card
    units: int = 0
    reserved_units: int = 0
    health: Health = Health.HEALTHY
    reason: str = ""
    cordoned: bool = False
    closures: tuple[Closure, ...] = ()

    def takes(self, use: str) -> bool:
        """Whether new pods of this use, ``SERVES_MEMORY`` or ``SERVES_WHOLE``, may be placed here."""
        return self.is_usable and (not self.closures or all(closure.use != use for closure in self.closures))

    @property
    def index(self) -> int:
        return self.card.index

    @property
    def is_usable(self) -> bool:
        """Whether new pods may be placed here."""
        return self.health is Health.HEALTHY and not self.cordoned


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutCard:
    """A card that the node has but does not share, and why (MIG is on, say)."""

    index: int
    uuid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The cards of one node, by index, with the unit in which they are granted. Cards of one node may differ.

    ``modes``: what of them the plugin hands out, ``SERVES_MEMORY``, ``SERVES_WHOLE`` or both. ``unrecorded``: who holds
    cards beside the pods whose own records say so.
    """

    unit: MemoryUnit
    cards: tuple[InventoryCard, ...]
    driver: str = ""
    left_out: tuple[LeftOutCard, ...] = ()
    modes: tuple[str, ...] = (SERVES_MEMORY,)
    unrecorded: tuple[UnrecordedHolder, ...] = ()

    @property
    def total_units(self) -> int:
        return sum(card.units for card in self.cards)

    @property
    def units_by_card(self) -> dict[int, int]:
        """The units of each card, by its index: all that a pod has of one that it holds whole."""
        return {card.index: card.units for card in self.cards}


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """What one card is really doing and how its driver runs it, where the library reports it; None where it does not.

    ``performance_state`` is 0 at full clocks and larger when slower; ``compute_mode`` says how many processes may use
    the card, in NVML's words. ``processes`` maps a host process id to the bytes of card memory it holds; empty where
    no process is on the card.
    ``peaks``: the most that each of them ever held since it was started, where the library keeps accounts.
    """

    memory_used_bytes: int | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    utilization_percent: float | None = None
    fan_percent: float | None = None
    performance_state: int | None = None
    compute_mode: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    processes: Mapping[int, int] | None = None
    peaks: Mapping[int, int] | None = None
