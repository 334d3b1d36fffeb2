"""The cells of a pod's row.

Source: ``printPod`` in ``pkg/printers/internalversion/printers.go`` of Kubernetes.
"""

from __future__ import annotations

from gcushare_playground.apiserver.objects import JsonObject, condition, dig, is_deleting


def ready(pod: JsonObject) -> str:
    """Write ready containers over all containers; restartable init containers count as such."""
    sidecars = [c for c in dig(pod, "spec", "initContainers", default=[]) if c.get("restartPolicy") == "Always"]
    total = len(dig(pod, "spec", "containers", default=[])) + len(sidecars)
    names = {c.get("name") for c in sidecars}
    running = [s for s in _statuses(pod, "initContainerStatuses") if s.get("name") in names]
    running += _statuses(pod, "containerStatuses")
    return f"{sum(_is_running(s) and bool(s.get('ready')) for s in running)}/{total}"


def restarts(pod: JsonObject) -> str:
    """Write how often containers restarted."""
    return str(sum(container.get("restartCount", 0) for container in _statuses(pod, "containerStatuses")))


def status(pod: JsonObject) -> str:
    """Write the one word that says best how the pod is."""
    word = str(dig(pod, "status", "reason") or dig(pod, "status", "phase", default="Unknown"))
    if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    word = _container_word(pod, word)
    if is_deleting(pod):
        return "Unknown" if dig(pod, "status", "reason") == "NodeLost" else "Terminating"
    return word


def _statuses(pod: JsonObject, field: str) -> list[JsonObject]:
    found: list[JsonObject] = dig(pod, "status", field, default=[])
    return found


def _is_running(container: JsonObject) -> bool:
    return dig(container, "state", "running") is not None


def _container_word(pod: JsonObject, word: str) -> str:
    is_one_running = False
    for container in reversed(_statuses(pod, "containerStatuses")):
        terminated = dig(container, "state", "terminated")
        if waiting := dig(container, "state", "waiting", "reason"):
            word = waiting
        elif terminated is not None:
            word = _ended_word(terminated)
        elif container.get("ready") and _is_running(container):
            is_one_running = True
    if word == "Completed" and is_one_running:
        return "Running" if condition(pod, "Ready").get("status") == "True" else "NotReady"
    return word


def _ended_word(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
