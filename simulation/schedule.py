"""What a run is made of: settings that stay, and a list of actions that can be printed, cut and played again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gcushare.device_plugin.plugin_settings import GrantMode

FIRST_S = 20.0
"""Before anything happens: the programs start."""
OUR_LEASE, USUAL_LEASE = (10.0, 6.5, 1.0), (15.0, 10.0, 2.0)
"""The extender's defaults, and those of Kubernetes' own programs."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that happens. ``args`` are plain values, so that a schedule can be printed and read again."""

    at_s: float
    kind: str
    args: dict[str, Any]

    def words(self) -> str:
        """It on one line."""
        args = " ".join(f"{key}={value}" for key, value in self.args.items() if value not in (None, ""))
        return f"{self.at_s:9.3f}  {self.kind} {args}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What stays as it is for a whole run."""

    seed: int
    nodes: tuple[tuple[int, ...], ...]
    """Gigabytes of each card of each node."""
    vendor: str
    mode: GrantMode
    old_scheduler: bool
    clock_drift: float
    wall_skew_s: float
    card_poll_s: float
    node_policy: str
    page_size: int
    best: int | None
    """How many nodes filter names; None for all that fit."""
    replicas: int
    """Of the extender."""
    lease: tuple[float, float, float]
    """Its duration, the deadline of its renewal, and what lies between two attempts, in seconds."""
    has_policies: bool = True
    """Whether the API server has the admission policies of the charts."""
    has_limits: bool = False
    """Whether NVIDIA's driver limits the memory of pods on every node."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A whole run."""

    settings: Settings
    actions: tuple[Action, ...]
    rounds: tuple[tuple[float, float], ...]
    """When each storm ends, and when the calm after it."""
    planted: str = field(default="")
    """The bug that was put into it on purpose; empty for none."""

    @property
    def seed(self) -> int:
        """What it was drawn from."""
        return self.settings.seed
