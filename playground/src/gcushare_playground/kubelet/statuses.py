"""The statuses a kubelet writes, as pure functions: pods, and the resources of its node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gcushare.core.quantities import parse_quantity
from gcushare_playground.amounts import JsonObject, is_extended
from gcushare_playground.kubelet.books import ResourceCount
from gcushare_playground.kubelet.podspec import ContainerSpec, Pod
from gcushare_playground.kubelet.views import ContainerView

_OWN_POD_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def running_status(pod: Pod, views: Mapping[str, ContainerView], *, pod_ip: str, host_ip: str, now: str) -> JsonObject:
    """Return the status of a pod whose containers all run."""
    return {
        "phase": "Running",
        "conditions": _conditions(pod, is_ready=True, reason=None, now=now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": pod.raw.get("status", {}).get("startTime") or now,
        "initContainerStatuses": [
            _container_status(
                pod, container, views.get(container.name), ended=container.ends_before_the_others, now=now
            )
            for container in pod.containers
            if container.is_init
        ],
        "containerStatuses": [
            _container_status(pod, container, views.get(container.name), ended=False, now=now)
            for container in pod.containers
            if not container.is_init
        ],
    }


def finished_status(pod: Pod, views: Mapping[str, ContainerView], *, phase: str, now: str) -> JsonObject:
    """Return the status of a pod whose containers all ended."""
    exit_code = 0 if phase == "Succeeded" else 1
    statuses = [
        _container_status(pod, container, views.get(container.name), ended=True, now=now, exit_code=exit_code)
        for container in pod.containers
        if not container.is_init
    ]
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    conditions = _conditions(pod, is_ready=False, reason=reason, now=now)
    return {"phase": phase, "conditions": conditions, "containerStatuses": statuses}


def rejected_status(reason: str, message: str, *, now: str) -> JsonObject:
    """Return the status of a pod that was not admitted."""
    return {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": now}


def resource_status(
    node: JsonObject, machine: Mapping[str, str], counts: Mapping[str, ResourceCount]
) -> dict[str, dict[str, str | None]]:
    """Return the changes to the node's capacity and allocatable as a merge patch, empty when nothing changes.

    Own resources come from the machine and the plugins. Resources that somebody else put into the capacity are kept
    and copied to allocatable; allocatable ones without a capacity are removed. Only changes are sent, so that a
    foreign resource written meanwhile is not set back; the server's spelling, 128k for 128000, is none.

    Raises:
        RemoteContractError: a quantity is malformed.
    """
    status = node.get("status", {})
    before: dict[str, str] = dict(status.get("capacity") or {})
    capacity: dict[str, str | None] = {**before, **machine}
    capacity |= {resource: str(count.capacity) for resource, count in counts.items()}
    allocatable: dict[str, str | None] = capacity | {name: str(count.allocatable) for name, count in counts.items()}
    allocatable_before: dict[str, str] = dict(status.get("allocatable") or {})
    allocatable |= {resource: None for resource in allocatable_before if resource not in capacity}
    changes = {
        "capacity": {key: value for key, value in capacity.items() if _differ(before.get(key), value)},
        "allocatable": {
            key: value for key, value in allocatable.items() if _differ(allocatable_before.get(key), value)
        },
    }
    return {part: values for part, values in changes.items() if values}


def _differ(before: str | None, now: str | None) -> bool:
    if before is None or now is None or before == now:
        return before != now
    return parse_quantity(before) != parse_quantity(now)


def zeroed_extended_resources(node: JsonObject) -> dict[str, dict[str, str]]:
    """Return the merge patch with which a kubelet without a checkpoint takes over a node object that exists.

    Extended resources start at 0, whichever program wrote them: the machine may have been replaced.
    """
    capacity = node.get("status", {}).get("capacity") or {}
    zeros = {resource: "0" for resource in capacity if is_extended(resource)}
    return {"capacity": zeros, "allocatable": zeros} if zeros else {}


def node_conditions(node: JsonObject, *, now: str) -> list[JsonObject]:
    """Return the node's conditions with the kubelet's own set to a healthy node; those of others stay."""
    own = {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
    }
    before: dict[str, JsonObject] = {item["type"]: item for item in node.get("status", {}).get("conditions") or []}
    foreign = [item for kind, item in before.items() if kind not in own]
    return foreign + [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": _transition_time(before.get(kind), status, now),
        }
        for kind, (status, reason, message) in own.items()
    ]


def _transition_time(before: JsonObject | None, status: str, now: str) -> str:
    if before is None or before.get("status") != status:
        return now
    return str(before.get("lastTransitionTime") or now)


def _conditions(pod: Pod, *, is_ready: bool, reason: str | None, now: str) -> list[JsonObject]:
    existing: Iterable[JsonObject] = pod.raw.get("status", {}).get("conditions") or []
    kept = [condition for condition in existing if condition.get("type") not in _OWN_POD_CONDITIONS]
    for kind in _OWN_POD_CONDITIONS:
        is_true = is_ready or kind == "Initialized"
        condition: dict[str, Any] = {
            "type": kind,
            "status": "True" if is_true else "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        if reason is not None and not is_true:
            condition["reason"] = reason
        kept.append(condition)
    return kept


def _container_status(
    pod: Pod, container: ContainerSpec, view: ContainerView | None, *, ended: bool, now: str, exit_code: int = 0
) -> JsonObject:
    started = now if view is None else view.started
    restarts = 0 if view is None else view.restarts
    container_id = f"playground://{pod.uid}/{container.name}/{restarts}"
    terminated = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": started,
        "finishedAt": now,
        "containerID": container_id,
    }
    return {
        "name": container.name,
        "image": container.image,
        "imageID": container.image,
        "containerID": container_id,
        "ready": container.ends_before_the_others if ended else True,
        "started": not ended,
        "restartCount": restarts,
        "state": {"terminated": terminated} if ended else {"running": {"startedAt": started}},
        "lastState": {},
    }
