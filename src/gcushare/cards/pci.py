"""What the kernel shows of a card on the PCI bus, read from sysfs."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from gcushare.cards.ports import HealthReading

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


def pci_address(domain: int, bus: int, device: int, function: int) -> str:
    """Write an address the kernel's way: ``0000:3b:00.0``."""
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def parse_pci_address(text: str) -> str:
    """Bring an address a library wrote (``00000000:3B:00.0``) into the kernel's form; "" if it is not an address."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return ""
    domain, bus, device, function = (int(part, 16) for part in match.groups())
    return pci_address(domain, bus, device, function)


class PciBus:
    """The PCI bus as sysfs shows it; every answer is None if the machine does not report it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._shows_cards = False

    def find_lost(self, address: str) -> HealthReading | None:
        """Report a card that is no longer on the bus; None if it is, or without an address.

        None too while the bus has shown no card by its library's address: in WSL the two name cards differently.
        """
        if address and (self._root / address).exists():
            self._shows_cards = True
            return None
        if not address or not self._shows_cards:
            return None
        reason = f"the card fell off the bus: PCI device {address} is gone"
        return HealthReading(healthy=False, reason=reason, conclusive=True, lost=True)

    def numa_node(self, address: str) -> int | None:
        """The NUMA node of a card; None without an address or if the firmware does not report it."""
        if not address:
            return None
        try:
            node = int((self._root / address / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None  # the kernel writes -1 if the firmware does not report it

    def root(self, address: str) -> str:
        """The root complex that a card is below, such as ``pci0000:3a``; "" if the machine does not report it."""
        bridges = self._bridges(address)
        return bridges[0] if bridges else ""

    def are_linked(self, address_a: str, address_b: str) -> bool:
        """Whether one switch is between two cards, by the bridges their sysfs paths share."""
        paths = [self._bridges(address) for address in (address_a, address_b)]
        shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*paths, strict=False)))
        # Below the shared bridges one switch shows as one more (its port), several switches as more.
        return shared >= 2 and all(len(path) <= shared + 1 for path in paths)

    def _bridges(self, address: str) -> list[str]:
        """The root complex (``pci0000:3a``) and the bridges above a card, outermost first."""
        if not address or not (self._root / address).exists():
            return []
        parts = (self._root / address).resolve().parts[:-1]
        start = next((place for place, part in enumerate(parts) if part.startswith("pci")), None)
        return list(parts[start:]) if start is not None else []
