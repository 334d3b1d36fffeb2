"""What a container with a grant of cards gets, in whichever way they are given: by Allocate's answer or by a claim."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.cards import InventoryCard
from gcushare.core.requests import split_over_cards
from gcushare.core.units import MemoryUnit
from gcushare.node.cdi import cdi_name
from gcushare.node.container_environment import Grant, container_variables, device_paths
from gcushare.node.memory_limiter import NO_LIMITS, MemoryLimiter
from gcushare.node.node_settings import Strategy
from gcushare.vendors import Vendor
from gcushare.wire.dra.checkpoint import ContainerEdits

_NO_CARDS = frozenset({"", "all", "none", "void"})
"""Values of a toolkit's variable that name no card."""


def follow_cards(vendor: Vendor, strategies: Collection[Strategy]) -> bool:
    """Whether what containers are given means the same card wherever its driver lists it.

    A uuid does, in a variable or as a CDI name. An index and a device node mean the minor number, whatever card has it.
    """
    return vendor.visible_by_uuid and Strategy.DEVICES not in strategies


def read_given(
    vendor: Vendor, numbers: Sequence[int], variables: Mapping[str, str], cdi_names: Iterable[str]
) -> dict[int, str]:
    """The uuids of the cards that a container was given, by the cards' numbers; empty if it was not given uuids.

    ``numbers`` are those of its device ids, or of its claim's devices. An answer for shared memory has the numbers
    itself: a container of a pod that has several cards may see more cards than its own ids are of.
    """
    prefix = f"{vendor.cdi_kind}="
    words = [name.removeprefix(prefix) for name in cdi_names if name.startswith(prefix)]
    words = words or variables.get(vendor.environment.visible, "").split(",")
    own = variables.get(vendor.environment.card_index, "").split(",")
    named = [int(word) for word in own] if all(word.isdecimal() for word in own) else sorted(numbers)
    is_given = len(words) == len(named) and not any(word in _NO_CARDS or word.isdecimal() for word in words)
    return dict(zip(named, words, strict=True)) if is_given else {}


@dataclass(frozen=True, slots=True)
class GrantForm:
    """The vendor's words and the chosen strategies; ``limiter`` is None if memory is not limited."""

    vendor: Vendor
    strategies: Collection[Strategy]
    limiter: MemoryLimiter | None = None
    driver_dirs: tuple[Path, ...] = ()
    """Directories and files of the host that the strategy ``devices`` brings into containers, read-only."""

    def check(self, cards: Iterable[InventoryCard]) -> None:
        """Check that memory of these cards may be given.

        Raises:
            Refused: it was to be limited and cannot be.
        """
        if self.limiter is not None:
            self.limiter.check(cards)

    def edits(self, grant: Grant, unit: MemoryUnit, shares: Mapping[int, int] | None = None) -> ContainerEdits:
        """Return what the container gets but for ``cdi_names``; ``shares``: its units by card, if they are not equal.

        One that has its cards whole has no limits, for it shares them with no other.
        """
        limits = NO_LIMITS
        if self.limiter is not None and not grant.whole:
            indexes = [card.index for card in grant.cards]
            units = shares or split_over_cards(grant.units, indexes)
            usable = shares or split_over_cards(grant.usable_units, indexes)
            limits = self.limiter.limit(grant, unit, units, usable)
        variables = container_variables(self.vendor, self.strategies, grant, unit)
        with_devices = Strategy.DEVICES in self.strategies
        return ContainerEdits(
            variables={**variables, **limits.variables},
            device_nodes=device_paths(self.vendor, grant) if with_devices else (),
            mounts=tuple(map(str, self.driver_dirs)) if with_devices else (),
            folders=dict(limits.mounts),
        )

    def cdi_names(self, grant: Grant) -> tuple[str, ...]:
        """Devices of the vendor's own CDI specification."""
        if Strategy.CDI not in self.strategies:
            return ()
        return tuple(f"{self.vendor.cdi_kind}={cdi_name(self.vendor, card)}" for card in grant.cards)
