"""What happens to nodes that serve claims in a run: pods, sick cards, lost calls and killed drivers, from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from simulation.schedule import FIRST_S, Action

NODES: tuple[tuple[int, ...], ...] = ((16, 8), (16,))
"""Gigabytes of each card of each node."""
STORM_S, CALM_S, PACE_S = 240.0, 200.0, 2.0
CLAIM_BUGS = (
    "counts no pod", "forgets what it prepared", "leaves files", "keeps templates", "leads without a lease",
    "keeps orphans", "trusts late answers", "mixes up names",
)  # fmt: skip
"""What may be put in on purpose: room is not checked, the checkpoint is not written, CDI files are not removed, unused
templates stay, every replica of the extender leads, claims that no pod uses stay prepared, an answer brings a
deleted object back, and an object that is gone takes the one along that has its name now."""
KINDS = {
    "create": 10.0, "delete": 5.0, "force": 2.0, "kill": 3.0, "calls": 2.0, "weather": 2.0, "late slices": 1.0,
    "sick card": 1.0, "cordon": 1.0, "lose checkpoint": 0.4, "foreign slice": 0.4, "pass on": 1.5,
    "restart kubelet": 1.0, "kill extender": 1.5, "extender weather": 1.0, "delete template": 0.5,
    "foreign template": 0.5, "forget use": 0.7, "delete slices": 1.0, "recreate": 1.0,
}  # fmt: skip
NUMBER_KINDS = {"renumber", "silent library"}
"""A driver that lists its cards in another order, some of them later, or answers late: drawn apart from the others."""
_SIZES = (1, 2, 4, 6, 8, 12, 16)
_WEATHERS: tuple[dict[str, float], ...] = (
    {"lost_before": 0.3}, {"lost_after": 0.4}, {"refused": 1.0}, {"unavailable": 0.5}, {"slow_s": 4.0},
    {"lag_s": 8.0}, {"answer_s": 12.0}, {"duplicate": 0.5, "swap": 0.3},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClaimsSchedule:
    """A whole run; ``rounds``: when each stretch of trouble ends, and when the calm after it."""

    seed: int
    actions: tuple[Action, ...]
    rounds: tuple[tuple[float, float], ...]
    planted: str = ""
    """The bug that was put into it on purpose; empty for none."""


def make_claims_schedule(seed: int, *, rounds: int = 3, planted: str = "") -> ClaimsSchedule:
    """Draw a run: storms, each followed by calm."""
    rng, renumbered = random.Random(f"claims/{seed}"), random.Random(f"claims/{seed}/renumber")
    actions: list[Action] = []
    ends: list[tuple[float, float]] = []
    now_s, pods = FIRST_S, 0
    for _ in range(rounds):
        at_s = now_s
        while (at_s := at_s + rng.expovariate(1 / PACE_S)) < now_s + STORM_S:
            kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
            args: dict[str, Any] = {"node": rng.randrange(len(NODES)), **_arguments(rng, kind)}
            if kind in ("create", "pass on"):
                pods += 1
                args["name"] = f"p{pods}"
            actions.append(Action(round(at_s, 3), kind, args))
        for _ in range(renumbered.choice([0, 3, 10])):
            at_s, kind = now_s + STORM_S * renumbered.random(), renumbered.choice(sorted(NUMBER_KINDS))
            args = {"node": renumbered.randrange(len(NODES)), "for_s": renumbered.choice([2.0, 20.0, 60.0])}
            if kind == "renumber":
                slots = list(range(len(NODES[args["node"]])))
                args["order"] = renumbered.sample(slots, renumbered.choice([len(slots), max(1, len(slots) - 1)]))
                args["boots"] = renumbered.random() < 0.5
            actions.append(Action(round(at_s, 3), kind, args))
        actions.sort(key=lambda action: action.at_s)
        ends.append((now_s + STORM_S, now_s + STORM_S + CALM_S))
        now_s += STORM_S + CALM_S
    return ClaimsSchedule(seed, tuple(actions), tuple(ends), planted)


def _arguments(rng: random.Random, kind: str) -> dict[str, Any]:
    match kind:
        case "create":
            whole = rng.random() < 0.15
            return {"units": 0 if whole else rng.choice(_SIZES)}
        case "kill extender":
            return {"replica": rng.randrange(2), "steps": rng.choice([1, 2, 5, 20])}
        case "extender weather":
            return {"replica": rng.randrange(2), **_arguments(rng, "weather")}
        case "delete template" | "foreign template":
            return {"units": rng.choice(_SIZES), "for_s": round(rng.uniform(5.0, 60.0), 3)}
        case "recreate":
            return {
                "what": rng.choice(["template", "slice", "node"]),
                "units": rng.choice(_SIZES),
                "lists": rng.random(),
            }
        case "delete" | "force" | "pass on" | "forget use":
            return {"which": rng.random()}
        case "kill":
            return {"writes": rng.choice([0, 0, 1, 2, 3, 4]), "steps": rng.choice([1, 2, 5, 20])}
        case "calls":
            return {"odds": rng.choice([0.3, 0.8]), "for_s": round(rng.uniform(2.0, 60.0), 3)}
        case "weather":
            return {"odds": rng.choice(_WEATHERS), "for_s": round(rng.uniform(1.0, 60.0), 3)}
        case "late slices":
            return {"lag_s": rng.choice([2.0, 15.0]), "for_s": round(rng.uniform(5.0, 60.0), 3)}
        case "sick card" | "cordon":
            return {"card": rng.randrange(2), "for_s": round(rng.uniform(5.0, 60.0), 3)}
    return {}
