"""A cluster as bind meets it: pods that are bound once and permanently, and answers that get lost on the way."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Pod
from tests.played_api import Asked, PlayedApi


class Mishap(enum.Enum):
    """What befalls one request."""

    NONE = "answered"
    LOST_BEFORE = "lost on the way there"
    LOST_AFTER = "done, the answer lost"
    NOT_SENT = "no connection"
    CONFLICT = "409 although the pod can be bound"
    FORBIDDEN = "403"
    BROKEN = "an error that no one foresaw"
    HANGS_BEFORE = "no answer, not done"
    HANGS_AFTER = "no answer, done"


class Cluster(PlayedApi):
    """Pods by (namespace, name). ``mishaps`` befall the next Bindings, ``read_mishaps`` the next reads, in order."""

    def __init__(self, *pods: Pod) -> None:
        self.version = 100
        """The store's; each write has the next one."""
        self.pods: dict[tuple[str, str], Pod] = {}
        for pod in pods:
            self.put(pod)
        self.mishaps: deque[Mishap] = deque()
        self.read_mishaps: deque[Mishap] = deque()
        self.bindings: list[tuple[PodRef, str]] = []
        self.noted: list[str] = []
        """The pods whose annotations were patched."""
        self.reads = 0
        self.late: list[Asked] = []
        """Bindings that were lost to their sender and may still arrive."""
        self.bindings_travel: asyncio.Event | None = None
        """Bindings wait until this is set, as if their sender had stopped."""
        self.reads_travel: asyncio.Event | None = None
        """Set aside until this is set: answers to reads, which then tell of an earlier state."""

    async def answer(self, asked: Asked) -> Pod | None:
        """Bind a pod, read it, or note on it, as the API server does."""
        if asked.verb == "bind":
            await self._bind(asked)
            return None
        if asked.verb == "get":
            return await self._read(asked)
        found = self._find(asked)
        if found.metadata.uid != asked.body["metadata"]["uid"]:
            raise ConflictError(f"pod {asked.name} is another")
        self.noted.append(asked.name)
        return found

    async def _bind(self, asked: Asked) -> None:
        """Bind after and before whatever befalls the request."""
        pod = PodRef(asked.body["metadata"]["uid"], asked.namespace, asked.name)
        self.bindings.append((pod, asked.body["target"]["name"]))
        if self.bindings_travel is not None:
            await self.bindings_travel.wait()
        mishap = self.mishaps.popleft() if self.mishaps else Mishap.NONE
        match mishap:
            case Mishap.NOT_SENT:
                raise RetryableError("connection refused; nothing was sent")
            case Mishap.CONFLICT:
                raise ConflictError("the object has been modified")
            case Mishap.FORBIDDEN:
                raise ForbiddenError("pods/binding is forbidden")
            case Mishap.BROKEN:
                raise RuntimeError("a fault of our own")
            case Mishap.LOST_BEFORE:
                self.late.append(asked)
                raise UnknownOutcomeError("connection lost; it may have taken effect")
            case Mishap.HANGS_BEFORE:
                self.late.append(asked)
                await self._hang(asked.timeout_s)
        self._accept(asked)
        if mishap is Mishap.LOST_AFTER:
            raise UnknownOutcomeError("connection lost; it may have taken effect")
        if mishap is Mishap.HANGS_AFTER:
            await self._hang(asked.timeout_s)

    async def _hang(self, timeout_s: float | None) -> None:
        await asyncio.sleep(timeout_s or 0.0)
        raise UnknownOutcomeError("no answer in time; it may have taken effect")

    def _accept(self, asked: Asked) -> None:
        """Bind, or refuse as the API server does."""
        pod, wanted = self._find(asked), asked.body["metadata"]
        if pod.metadata.uid != wanted["uid"] or pod.is_bound or pod.is_being_deleted:
            raise ConflictError(f"pod {asked.name} is already assigned, deleted or another")
        if wanted.get("resourceVersion", "") not in ("", pod.metadata.resource_version):
            raise ConflictError(f"pod {asked.name} is not at version {wanted['resourceVersion']} any more")
        self.put(self.bound(pod, asked.body["target"]["name"], asked.annotations))

    def _find(self, asked: Asked) -> Pod:
        found = self.pods.get((asked.namespace, asked.name))
        if found is None:
            raise NotFoundError(f"pods {asked.name!r} not found")
        return found

    async def _read(self, asked: Asked) -> Pod:
        self.reads += 1
        mishap = self.read_mishaps.popleft() if self.read_mishaps else Mishap.NONE
        if mishap is Mishap.FORBIDDEN:
            raise ForbiddenError("pods is forbidden")
        if mishap is not Mishap.NONE:
            raise RetryableError("no answer in time")
        found = self.pods.get((asked.namespace, asked.name))
        if self.reads_travel is not None:
            await self.reads_travel.wait()
        if found is None:
            raise NotFoundError(f"pods {asked.name!r} not found")
        return found

    def put(self, pod: Pod) -> None:
        """Store a pod, at a version of its own."""
        self.version += 1
        meta = replace(pod.metadata, resource_version=str(self.version))
        self.pods[meta.namespace, meta.name] = replace(pod, metadata=meta)

    def start(self, name: str, *, by_kubelet: bool = False) -> None:
        """Let a bound pod's kubelet admit it: the plugin marks its record, or the kubelet alone reports its start."""
        pod = self.pods["default", name]
        if by_kubelet:
            self.put(replace(pod, status=replace(pod.status, start_time="2026-01-01T00:00:01Z")))
            return
        annotations = pod.metadata.annotations | {ENFLAME.record.assigned: "true"}
        self.put(replace(pod, metadata=replace(pod.metadata, annotations=annotations)))

    def arrive(self) -> None:
        """Let lost Bindings arrive after all."""
        for asked in self.late:
            try:
                self._accept(asked)
            except GcushareError:
                continue  # Too late: as the API server would answer to no one.
        self.late.clear()

    def tell(self, state: VendorState) -> None:
        """Let a watch say everything as it is now."""
        for pod in self.pods.values():
            state.pod_applied(pod)
        known = state.waiting.keys() | state.bound.keys() | state.ledger.reserved
        for uid in known - {pod.metadata.uid for pod in self.pods.values()}:
            state.pod_deleted(uid)

    @staticmethod
    def bound(pod: Pod, node: str, annotations: Mapping[str, str | None]) -> Pod:
        merged = pod.metadata.annotations | {key: text for key, text in annotations.items() if text is not None}
        metadata = replace(pod.metadata, annotations=merged)
        return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=node))
