"""The node's API port in memory: nodes, pods, events and leases for tests that need no API server."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

from gcushare.core.errors import ConflictError, NotFoundError, RetryableError
from gcushare_playground.kubelet.api import GoneError, JsonObject, PodEvent, PodList
from gcushare_playground.kubelet.clocks import now_text


class MemoryNodeApi:
    """Keeps objects as an API server does: versions, uids as preconditions, merge patches, watches from a version.

    ``is_down`` makes every call fail as against a server that is away, and ends open watches.
    """

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], JsonObject] = {}
        self.nodes: dict[str, JsonObject] = {}
        self.events: list[JsonObject] = []
        self.leases: dict[str, str] = {}
        self.history: list[PodEvent] = []
        self.compacted_below = 0
        self._version = 0
        self._is_down = False
        self._changed = asyncio.Condition()

    @property
    def is_down(self) -> bool:
        return self._is_down

    async def set_down(self, is_down: bool) -> None:
        """Take the server away or bring it back."""
        self._is_down = is_down
        await self._announce()

    async def compact(self) -> None:
        """Forget the history, so that a watch from an older version is answered with "gone"."""
        self.compacted_below = self._version
        await self._announce()

    async def add_pod(self, pod: JsonObject, *, node: str) -> JsonObject:
        """Create a pod that is bound already."""
        pod = copy.deepcopy(pod)
        metadata = pod["metadata"]
        metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", f"uid-{metadata['name']}-{self._version + 1}")
        metadata.setdefault("creationTimestamp", now_text())
        pod["spec"]["nodeName"] = node
        pod.setdefault("status", {"phase": "Pending"})
        key = metadata["namespace"], metadata["name"]
        if key in self.pods:
            raise ConflictError(f"pod {key!r} exists already")
        return await self._store("ADDED", pod)

    async def annotate_pod(self, namespace: str, name: str, annotations: dict[str, str]) -> JsonObject:
        pod = copy.deepcopy(self._pod(namespace, name))
        pod["metadata"].setdefault("annotations", {}).update(annotations)
        return await self._store("MODIFIED", pod)

    async def request_deletion(self, namespace: str, name: str) -> None:
        """Mark the pod as a user's delete does; its kubelet removes it."""
        pod = copy.deepcopy(self._pod(namespace, name))
        pod["metadata"]["deletionTimestamp"] = now_text()
        await self._store("MODIFIED", pod)

    async def drop_pod(self, namespace: str, name: str) -> None:
        """Remove a pod's object as a forced deletion does, also while the server is away for the kubelet."""
        pod = copy.deepcopy(self._pod(namespace, name))
        del self.pods[namespace, name]
        await self._store("DELETED", pod)

    async def wait_until(self, holds: Callable[[], bool], what: str, *, timeout_s: float = 10.0) -> None:
        """Wait until something holds, looking again whenever an object changes.

        Raises:
            TimeoutError: it did not by then; the message says what.
        """
        async with self._changed:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait_for(holds)
            except TimeoutError as error:
                raise TimeoutError(f"not within {timeout_s}s: {what}") from error

    async def wait_for_pod(
        self, namespace: str, name: str, phase: str | None, *, timeout_s: float = 10.0
    ) -> JsonObject:
        """Wait until the pod is in the phase, or gone where ``phase`` is None, and return it as last seen.

        Raises:
            TimeoutError: it was not by then; the message names what it was.
        """
        last: JsonObject = {}

        def is_there() -> bool:
            nonlocal last
            found = self.pods.get((namespace, name))
            last = found or last
            return (found is None) if phase is None else bool(found and found["status"]["phase"] == phase)

        try:
            await self.wait_until(is_there, f"pod {namespace}/{name} in phase {phase!r}", timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it is {last.get('status')!r}") from error
        return last

    async def list_pods(self, node: str) -> PodList:
        self._check_up()
        mine = tuple(copy.deepcopy(pod) for pod in self.pods.values() if pod["spec"].get("nodeName") == node)
        return PodList(mine, str(self._version))

    async def watch_pods(self, node: str, resource_version: str) -> AsyncIterator[PodEvent]:
        self._check_up()
        seen = int(resource_version)
        while True:
            if seen < self.compacted_below:
                raise GoneError(f"version {seen} is older than {self.compacted_below}")
            for event in [event for event in self.history if int(event.resource_version) > seen]:
                seen = int(event.resource_version)
                if event.pod["spec"].get("nodeName") == node:
                    yield PodEvent(event.kind, copy.deepcopy(event.pod), event.resource_version)
            async with self._changed:
                while self._version <= seen and not self._is_down:
                    await self._changed.wait()
            self._check_up()

    async def get_node(self, name: str) -> JsonObject:
        self._check_up()
        if name not in self.nodes:
            raise NotFoundError(f"node {name!r} does not exist")
        return copy.deepcopy(self.nodes[name])

    async def create_node(self, node: JsonObject) -> JsonObject:
        self._check_up()
        name = node["metadata"]["name"]
        if name in self.nodes:
            raise ConflictError(f"node {name!r} exists already")
        self.nodes[name] = copy.deepcopy(node)
        await self._announce()
        return copy.deepcopy(node)

    async def patch_node_status(self, name: str, patch: JsonObject) -> JsonObject:
        node = await self.get_node(name)
        self.nodes[name] = merge(node, {"status": patch["status"]})
        await self._announce()
        return copy.deepcopy(self.nodes[name])

    async def patch_pod_status(self, namespace: str, name: str, patch: JsonObject) -> JsonObject:
        self._check_up()
        pod = copy.deepcopy(self._pod(namespace, name))
        wanted = patch.get("metadata", {}).get("uid", pod["metadata"]["uid"])
        if wanted != pod["metadata"]["uid"]:
            raise ConflictError(f"pod {namespace}/{name} has uid {pod['metadata']['uid']!r}, not {wanted!r}")
        return await self._store("MODIFIED", merge(pod, {"status": patch["status"]}))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        self._check_up()
        found = self._pod(namespace, name)["metadata"]["uid"]
        if found != uid:
            raise ConflictError(f"pod {namespace}/{name} has uid {found!r}, not {uid!r}")
        await self.drop_pod(namespace, name)

    async def create_event(self, namespace: str, event: JsonObject) -> None:
        self._check_up()
        self.events.append(copy.deepcopy(event))

    async def renew_lease(self, name: str, renew_time: str, duration_s: int) -> None:
        self._check_up()
        self.leases[name] = renew_time

    def _pod(self, namespace: str, name: str) -> JsonObject:
        if (namespace, name) not in self.pods:
            raise NotFoundError(f"pod {namespace}/{name} does not exist")
        return self.pods[namespace, name]

    def _check_up(self) -> None:
        if self._is_down:
            raise RetryableError("the API server is away")

    async def _store(self, kind: Any, pod: JsonObject) -> JsonObject:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        if kind != "DELETED":
            self.pods[pod["metadata"]["namespace"], pod["metadata"]["name"]] = pod
        self.history.append(PodEvent(kind, pod, str(self._version)))
        await self._announce()
        return copy.deepcopy(pod)

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def merge(target: JsonObject, patch: JsonObject) -> JsonObject:
    """Return the target with a JSON merge patch applied (RFC 7396)."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = merge(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result
