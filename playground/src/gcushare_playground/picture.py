"""A local copy of one kind of object, updated by a watch, for code that waits for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import GcushareError
from gcushare.core.quantities import parse_count
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import Resource

JsonObject: TypeAlias = dict[str, Any]

POD_OBJECTS: Resource[JsonObject] = Resource("api/v1", "pods", dict)
NODE_OBJECTS: Resource[JsonObject] = Resource("api/v1", "nodes", dict, namespaced=False)
EVENT_OBJECTS: Resource[JsonObject] = Resource("api/v1", "events", dict)
SERVICE_OBJECTS: Resource[JsonObject] = Resource("api/v1", "services", dict)


_POLL_S = 0.05


class NotInTime(GcushareError):
    """Something awaited did not come to pass by its deadline."""


class Picture:
    """Every object of one kind, by ``namespace/name`` (or name); ``run`` it in a task."""

    def __init__(self, client: KubeClient, resource: Resource[JsonObject]) -> None:
        self.objects: dict[str, JsonObject] = {}
        self._reflector = Reflector(
            client,
            resource,
            self,
            decode=_decode,
            settings=ReflectorSettings(backoff=BackoffPolicy(first_s=0.05, cap_s=0.5)),
            clock=SystemClock(),
        )
        self._kind = resource.plural
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._reflector.run()

    async def until(
        self, holds: Callable[[], bool], what: str, *, deadline_s: float = 180.0, shown: Callable[[], str] | None = None
    ) -> None:
        """Wait until ``holds``, looked at after every change; ``what`` says it in words, ``shown`` how far it is.

        Raises:
            NotInTime: not by the deadline.
        """
        try:
            async with asyncio.timeout(deadline_s):
                while not (self._reflector.synced.is_set() and holds()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError as error:
            now = shown() if shown is not None else f"{len(self.objects)} {self._kind}"
            raise NotInTime(f"waited {deadline_s:g}s until {what}; now: {now}") from error

    def applied(self, obj: JsonObject) -> None:
        """Take in an object's newest state."""
        self.objects[key_of(obj)] = obj
        self._changed.set()

    def deleted(self, obj: JsonObject) -> None:
        """Take in that an object is gone."""
        self.objects.pop(key_of(obj), None)
        self._changed.set()

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Take in that nothing else exists."""
        self.objects = {key: obj for key, obj in self.objects.items() if obj["metadata"]["uid"] in uids}
        self._changed.set()


async def poll_until(look: Callable[[], Awaitable[str | None]], what: str, *, deadline_s: float = 180.0) -> None:
    """Look again and again at something that tells of no changes, until ``look`` returns None instead of how it is.

    Raises:
        NotInTime: not by the deadline.
    """
    seen: str | None = "not looked at yet"
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                seen = await look()
                if seen is None:
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise NotInTime(f"waited {deadline_s:g}s until {what}; now: {seen}") from error


def key_of(obj: JsonObject) -> str:
    """``namespace/name``, or the name alone."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def phase_of(pod: JsonObject) -> str:
    """A pod's phase."""
    return str(pod.get("status", {}).get("phase", ""))


def node_of(pod: JsonObject) -> str:
    """A pod's node, empty while it has none."""
    return str(pod["spec"].get("nodeName", ""))


def condition_of(obj: JsonObject, kind: str) -> JsonObject:
    """One condition of an object, empty where it has none."""
    conditions = obj.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == kind), {})


def allocatable_of(node: JsonObject, resource: str) -> int:
    """How much of an extended resource a node offers."""
    return parse_count(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _decode(raw: msgspec.Raw) -> JsonObject:
    return msgspec.json.decode(raw, type=JsonObject)
