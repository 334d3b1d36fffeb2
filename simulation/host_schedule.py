"""What happens to control-plane hosts in a run: disks' and network's faults and admins' wishes, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from simulation.schedule import Action

HOSTS = 3
STORM_S = 600.0
CALM_S = 1100.0
"""A change that was rolled back, as by a full disk, is tried again after 900 s; then a crashed holder's Lease is
waited out."""
QUIET_S = 7200.0
"""Hours in which little happens: the loops that look whether anything changed do their work."""
PACE_S, QUIET_PACE_S = 12.0, 900.0
"""Between two actions on average."""

HOST_BUGS = ("unsafe order", "forgets to sync")
"""What may be put in on purpose: a manifest before the configuration that it names, and renames that are not synced."""
DISK_FAULTS = ("full", "torn", "crash before", "crash after", "rename lost")
WEATHERS: tuple[dict[str, float], ...] = (
    {"lost_before": 0.3}, {"lost_after": 0.4}, {"refused": 1.0}, {"unavailable": 0.5}, {"slow_s": 4.0},
)  # fmt: skip
KINDS = (*DISK_FAULTS, "kill", "kill", "kill", "pause", "weather", "weather", "extender away", "mode", "url")


@dataclass(frozen=True, slots=True)
class HostSchedule:
    """A whole run; ``rounds``: when each stretch of trouble ends, and when the calm after it."""

    seed: int
    actions: tuple[Action, ...]
    rounds: tuple[tuple[float, float], ...]
    planted: str = ""
    """The bug that was put into it on purpose; empty for none."""


def make_host_schedule(seed: int, *, rounds: int = 3, quiet: bool = False, planted: str = "") -> HostSchedule:
    """Draw a run: storms, each followed by calm and, if asked for, by hours of quiet with a calm of their own."""
    rng = random.Random(f"hosts/{seed}")
    actions: list[Action] = []
    ends: list[tuple[float, float]] = []
    now_s = 0.0
    for _ in range(rounds):
        for length_s, pace_s in ((STORM_S, PACE_S), *([(QUIET_S, QUIET_PACE_S)] if quiet else [])):
            at_s = now_s + rng.expovariate(1 / pace_s)
            while at_s < now_s + length_s:
                kind = rng.choice(KINDS)
                actions.append(Action(round(at_s, 3), kind, {"host": rng.randrange(HOSTS), **_arguments(rng, kind)}))
                at_s += rng.expovariate(1 / pace_s)
            ends.append((now_s + length_s, now_s + length_s + CALM_S))
            now_s += length_s + CALM_S
    return HostSchedule(seed, tuple(actions), tuple(ends), planted)


def _arguments(rng: random.Random, kind: str) -> dict[str, Any]:
    match kind:
        case "kill":
            return {"steps": rng.choice([1, 2, 3, 5, 8, 20])}
        case "pause":
            return {"for_s": rng.choice([1.0, 15.0, 60.0])}
        case "weather":
            return {"odds": rng.choice(WEATHERS), "for_s": round(rng.uniform(1.0, 60.0), 3)}
        case "url":
            return {"url": f"http://10.96.1.{rng.randrange(200)}:32766"}
    return {}
