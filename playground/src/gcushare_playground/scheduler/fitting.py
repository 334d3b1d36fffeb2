"""The scheduler's own filters: whether a pod may run on a node, and in whose words it may not.

Source: the plugins of ``pkg/scheduler/framework/plugins`` in their default order; the first that refuses decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gcushare_playground.amounts import JsonObject
from gcushare_playground.scheduler.cache import NodeView
from gcushare_playground.scheduler.objects import PodInfo

_UNSCHEDULABLE_TAINT: JsonObject = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_OWN_RESOURCES = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node cannot take a pod; ``is_final``: ending other pods there would not help."""

    reasons: tuple[str, ...]
    is_final: bool = False


_Filter = Callable[[PodInfo, NodeView, frozenset[str]], Refusal | None]


def find_refusal(pod: PodInfo, view: NodeView, ignored: frozenset[str]) -> Refusal | None:
    """Return why the node cannot take the pod, None when it can; ``ignored`` resources are the extenders' matter."""
    return next((refusal for check in _FILTERS if (refusal := check(pod, view, ignored))), None)


def _check_unschedulable(pod: PodInfo, view: NodeView, _ignored: frozenset[str]) -> Refusal | None:
    if not view.node.unschedulable or _tolerates(pod, _UNSCHEDULABLE_TAINT):
        return None
    return Refusal(("node(s) were unschedulable",), is_final=True)


def _check_taints(pod: PodInfo, view: NodeView, _ignored: frozenset[str]) -> Refusal | None:
    hard = (taint for taint in view.node.taints if taint.get("effect") in _HARD_EFFECTS)
    if all(_tolerates(pod, taint) for taint in hard):
        return None
    return Refusal(("node(s) had untolerated taint(s)",), is_final=True)


def _check_selector(pod: PodInfo, view: NodeView, _ignored: frozenset[str]) -> Refusal | None:
    wanted: dict[str, str] = pod.spec.get("nodeSelector") or {}
    if wanted.items() <= view.node.labels.items():
        return None
    return Refusal(("node(s) didn't match Pod's node affinity/selector",), is_final=True)


def _check_resources(pod: PodInfo, view: NodeView, ignored: frozenset[str]) -> Refusal | None:
    reasons = ["Too many pods"] if len(view.pods) + 1 > view.node.max_pods else []
    is_final = False
    for name in sorted(pod.requests, key=lambda name: (name not in _OWN_RESOURCES, name)):
        amount = pod.requests[name]
        total = view.node.allocatable.get(name, 0)
        if amount and name not in ignored and amount > total - view.used.get(name, 0):
            reasons.append(f"Insufficient {name}")
            is_final = is_final or amount > total
    return Refusal(tuple(reasons), is_final) if reasons else None


_FILTERS: tuple[_Filter, ...] = (_check_unschedulable, _check_taints, _check_selector, _check_resources)


def _tolerates(pod: PodInfo, taint: JsonObject) -> bool:
    return any(_covers(toleration, taint) for toleration in pod.spec.get("tolerations") or [])


def _covers(toleration: JsonObject, taint: JsonObject) -> bool:
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    if effect and effect != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return not key or key == taint.get("key")
    return bool(key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""))


def summarise(refusals: Iterable[Refusal], node_count: int) -> str:
    """Write the FailedScheduling message: each reason with its number of nodes, sorted as text.

    Source: ``FitError.Error`` in ``pkg/scheduler/framework/types.go``.
    """
    counts: dict[str, int] = {}
    for refusal in refusals:
        for reason in refusal.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    head = f"0/{node_count} nodes are available:"
    lines = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"{head} {', '.join(lines)}." if lines else head
