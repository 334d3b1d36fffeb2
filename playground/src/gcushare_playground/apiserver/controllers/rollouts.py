"""How far a Deployment's replica sets may move at once; pure.

Source: ``pkg/controller/deployment/rolling.go`` and ``util/deployment_util.go`` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gcushare_playground.apiserver.objects import JsonObject, dig


@dataclass(frozen=True, slots=True)
class ReplicaSetState:
    """One replica set of a Deployment as it is now."""

    name: str
    wanted: int
    """spec.replicas"""
    available: int
    """status.availableReplicas"""
    pods: int
    """Pods that exist, terminating ones included."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """What the Deployment allows."""

    replicas: int
    surge: int
    unavailable: int
    recreate: bool = False


def read_strategy(deployment: JsonObject) -> Strategy:
    """Return a Deployment's strategy with percentages turned into pods: surge rounds up, unavailability down."""
    replicas: int = dig(deployment, "spec", "replicas", default=1)
    if dig(deployment, "spec", "strategy", "type") == "Recreate":
        return Strategy(replicas, 0, replicas, recreate=True)
    rolling = dig(deployment, "spec", "strategy", "rollingUpdate", default={})
    surge = _pods(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = _pods(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    # Neither surge nor unavailability would never move.
    return Strategy(replicas, surge, unavailable or (0 if surge else 1))


def _pods(value: int | str, replicas: int, *, round_up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas
    return -(-share // 100) if round_up else share // 100


def plan_rollout(strategy: Strategy, new: ReplicaSetState, old: Sequence[ReplicaSetState]) -> dict[str, int]:
    """Return the next replica count of every set, by name; repeated until nothing changes it ends at the new set alone.

    Invariant: the wanted pods never exceed replicas + surge, and available pods are not taken below
    replicas - unavailable.
    """
    if strategy.recreate:
        old_are_gone = not any(state.pods for state in old)
        plan = {state.name: 0 for state in old}
        return {**plan, new.name: strategy.replicas if old_are_gone else 0}
    room = strategy.replicas + strategy.surge - new.wanted - sum(state.wanted for state in old)
    target = min(strategy.replicas, new.wanted + max(0, room))
    return {new.name: target, **_shrink(strategy, new, old)}


def _shrink(strategy: Strategy, new: ReplicaSetState, old: Sequence[ReplicaSetState]) -> dict[str, int]:
    least = strategy.replicas - strategy.unavailable
    wanted = {state.name: state.wanted for state in old}
    new_unavailable = max(0, new.wanted - new.available)
    removable = new.wanted + sum(wanted.values()) - least - new_unavailable
    for state in old:
        # Pods that do not work go first: they serve nobody.
        broken = min(max(0, state.wanted - state.available), max(0, removable))
        wanted[state.name] -= broken
        removable -= broken
    spare = new.available + sum(min(s.available, wanted[s.name]) for s in old) - least
    for state in old:
        healthy = min(wanted[state.name], max(0, spare))
        wanted[state.name] -= healthy
        spare -= healthy
    return wanted
