"""Cards and inventories: which hardware a node has and how much of it may be granted.

Three types describe a card. `Card` is the hardware as the vendor's library reports it. `InventoryCard` is a `Card` with
health and what it offers; the monitor creates it, and the inventory annotation and the plugin's status carry it.
`nodes.CardState` is the card in the ledger, with what pods hold of it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from gcushare.core.quantities import Count, Int
from gcushare.core.units import MemoryUnit
from gcushare.core.wording import utc_text

MAX_CARDS = 16
"""Cards of one node: as many as device ids can name."""
MAX_CARD_UNITS = 10_000_000
"""Units of one card that is handed out whole only. The kubelet's limit does not bind them: they are only shown."""
CardIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CARDS)]
CardUnits: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_CARD_UNITS)]

SERVES_MEMORY = "memory"
SERVES_WHOLE = "whole"
BOTH_MODES = (SERVES_MEMORY, SERVES_WHOLE)
"""What a node's plugin may hand out: memory units, whole cards, or both."""
SERVES_CLAIMS = "claims"
"""The one mode of a node that gives its cards as ResourceClaims: it offers no resources."""


class Health(enum.Enum):
    """Whether new pods may be placed on a card. The values are those of the kubelet's device plugin API."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class Card(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One physical accelerator, as its vendor's library reports it.

    ``index`` is the card's number in device ids, records and views. It is the minor number (``/dev/gcu0`` is 0), unless
    pods hold that number of another card: then ``minor`` has the minor number, see `cards.numbers`. ``uuid`` identifies
    the hardware. ``numa_node`` is None and ``link_group`` is "" if unknown; cards of one link group share a direct link
    or one switch. ``driver_bytes`` are those of ``memory_bytes`` that the driver keeps for itself, as far as it says.
    ``limit_problem`` says why the vendor cannot limit what a process allocates on this card; it is "" if it can, or if
    that was not checked. Numbers have no bounds here: `plausible` checks what a library reports.
    """

    index: int
    uuid: str
    memory_bytes: int
    minor: int | None = None
    model: str = ""
    serial: str = ""
    pci_address: str = msgspec.field(default="", name="pci")
    numa_node: int | None = None
    link_group: str = msgspec.field(default="", name="link")
    driver_bytes: int = msgspec.field(default=0, name="driver")
    limit_problem: str = msgspec.field(default="", name="limitProblem")

    @property
    def minor_number(self) -> int:
        """The number of its device node."""
        return self.index if self.minor is None else self.minor


class Closure(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A card that takes no new pods of one use, because containers of a deleted pod may still use it in the other.

    ``use`` is what the card is closed to: ``SERVES_MEMORY`` or ``SERVES_WHOLE``. ``until`` is when it reopens at the
    latest, in seconds since the epoch; 0 while the node still sees the pod, so that no time is known.
    """

    use: str
    pod: str
    until: Count = 0


def describe_closure(closure: Closure) -> str:
    """Describe a closure for people: closed to which use, because of which pod, until when."""
    use = "pods that share" if closure.use == SERVES_MEMORY else "pods that want it whole"
    end = f"until {utc_text(closure.until)} at the latest" if closure.until else "as long as the node sees them"
    return f"closed to {use}, {end}, for containers of {closure.pod}, which was deleted by force"


class UnrecordedHolder(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A pod that holds cards from the kubelet but cannot carry a record of them.

    Either its request is one that we refuse, or the plugin cannot see the pod. ``pod`` is ``namespace/name``, or the
    kubelet's name for it. ``units`` are memory units by card index, ``whole`` the cards that it holds whole.
    """

    pod: str
    units: Mapping[CardIndex, CardUnits] = {}
    whole: tuple[CardIndex, ...] = ()


class InventoryCard(Card, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A card of a node, with its health and what it offers. The inventory annotation holds it in this form.

    ``units`` may be granted; ``reserved_units`` are withheld for the driver. Both are 0 until the node's plugin has
    decided on them. An admin cordons a card, the hardware makes it unhealthy: either way it takes no new pods, and
    running pods stay. ``closures`` exclude one use for a while, ordered by when they end.
    """

    index: CardIndex
    memory_bytes: Count = msgspec.field(name="memory")
    minor: Count | None = None
    numa_node: Count | None = msgspec.field(default=None, name="numa")
    driver_bytes: Count = msgspec.field(default=0, name="driver")
    units: CardUnits = 0
    reserved_units: CardUnits = msgspec.field(default=0, name="reserved")
    health: Health = Health.HEALTHY
    reason: str = ""
    cordoned: bool = False
    closures: tuple[Closure, ...] = msgspec.field(default=(), name="closed")

    def takes(self, use: str) -> bool:
        """Whether new pods of this use, ``SERVES_MEMORY`` or ``SERVES_WHOLE``, may be placed here."""
        return self.is_usable and (not self.closures or all(closure.use != use for closure in self.closures))

    @property
    def is_usable(self) -> bool:
        """Whether new pods may be placed here."""
        return self.health is Health.HEALTHY and not self.cordoned


class LeftOutCard(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A card that the node has but does not share, and why, for example because MIG is on."""

    index: Int
    uuid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The cards of one node, ordered by index, and the unit in which they are granted. Cards of one node may differ.

    ``modes`` is what the plugin hands out: ``SERVES_MEMORY``, ``SERVES_WHOLE`` or both; ``SERVES_CLAIMS`` on a node
    that serves claims. ``unrecorded`` are the pods that hold cards without a record of their own.
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
        """Units by card index: what a pod has of a card that it holds whole."""
        return {card.index: card.units for card in self.cards}


@dataclass(frozen=True, slots=True, kw_only=True)
class CardUse:
    """A card's measurements and driver modes. A field is None if the library does not report it.

    ``performance_state`` is 0 at full clocks and larger when slower. ``compute_mode`` is NVML's name for how many
    processes may use the card. ``persistence`` is whether the driver stays loaded without a client.
    ``power_limit_watts`` is the limit that is set, and ``cuda_version`` the newest CUDA that the driver runs (12.4).

    The maps are by host process id. ``processes`` has bytes of card memory; it is empty if no process uses the card.
    ``process_utilization`` has percents of the chip's time since the poll before, and ``process_names`` the programs.
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
    persistence: bool | None = None
    power_limit_watts: float | None = None
    cuda_version: str | None = None
    processes: Mapping[int, int] | None = None
    process_utilization: Mapping[int, float] | None = None
    process_names: Mapping[int, str] | None = None
