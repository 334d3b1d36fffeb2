"""What an admin chooses by settings for a node's cards: apart from the modules that act on it, so that ``--help`` does
not load those.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

AUTO_UNIT = "auto"
DEFAULT_LONGEST_WAIT_S = 600.0
"""The longest grace period of a pod that we wait for. A training job may take minutes to write its last checkpoint."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Memory of each card that pods never get: a fixed amount, and a share of the card in percent."""

    bytes: int = 0
    percent: float = 0.0

    def of(self, memory_bytes: int) -> int:
        """The reserved bytes of a card of that size, at most all of it."""
        return min(memory_bytes, self.bytes + -int(-memory_bytes * self.percent // 100))


NO_RESERVE = Reserve()


class Strategy(enum.Enum):
    """``env``: the container toolkit reads a variable. ``devices``: the device nodes. ``cdi``: names of a CDI spec."""

    ENV = "env"
    DEVICES = "devices"
    CDI = "cdi"


class OtherSystems(enum.Enum):
    """What follows if another system hands out cards of this node."""

    REFUSE = "refuse"
    ALLOW = "allow"
