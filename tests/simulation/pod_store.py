"""The API server's pods in virtual time: every request takes its time, answers get lost, lists come in pages."""

from __future__ import annotations

import asyncio
import enum
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from gcushare.core.errors import ConflictError, NotFoundError, RetryableError
from gcushare.kube.connection.transport import Request
from gcushare.kube.errors import GoneError, UnknownOutcomeError
from gcushare.vendors import ENFLAME
from tests.extender_objects import Document, pod_document
from tests.played_api import Asked, PlayedApi


class Fate(enum.Enum):
    """What becomes of a Binding's request."""

    ANSWERED = "answered"
    ANSWER_LOST = "done, the answer lost"
    REQUEST_LOST = "lost on its way"
    LATE = "given up by its sender, and done after all"


@dataclass(frozen=True)
class Change:
    version: int
    kind: str
    pod: Document


@dataclass
class Trouble:
    """How often what goes wrong, and how long things take at most, in seconds. ``calm`` ends all of it."""

    lost: float = 0.7
    unread: float = 0.1
    cut: float = 0.4
    compacted: float = 0.6
    travel_s: float = 0.1
    page_s: float = 4.0
    event_s: float = 3.0

    @classmethod
    def calm(cls) -> Trouble:
        return cls(lost=0, unread=0, cut=0, compacted=0, travel_s=0.01, page_s=0.01, event_s=0.01)


@dataclass
class PodStore(PlayedApi):
    """One node's worth of pods behind everything that may befall a request.

    ``overfull`` notes each moment at which the records of bound pods exceeded a card of ``card_units``.
    """

    rng: random.Random
    card_units: int = 16
    opaque: bool = False
    """Whether versions look like words, as the API's conventions allow."""
    trouble: Trouble = field(default_factory=Trouble)
    pods: dict[str, Document] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    version: int = 100
    oldest: int = 100
    overfull: list[str] = field(default_factory=list)
    wrong_versions: int = 0
    """Bindings refused because the pod had changed since the version that they named."""
    _listed: tuple[str, list[Document]] = field(default=("", []))
    """The version and the pods of the list whose pages are being read."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    # What happens in the cluster

    def create(self, name: str, units: int) -> None:
        self._write("ADDED", pod_document(name, units))

    def delete(self, name: str) -> None:
        gone = self.pods.pop(name)
        self._write("DELETED", gone)

    def touch(self, name: str) -> None:
        """Have somebody write something about a pod that no one here looks at."""
        self._write("MODIFIED", self.pods[name])

    def recorded(self) -> Counter[str]:
        """Units by card, as the records of bound pods say."""
        sums: Counter[str] = Counter()
        for pod in self.pods.values():
            if "nodeName" in pod["spec"]:
                written = pod["metadata"]["annotations"]
                card = f"{pod['spec']['nodeName']}/{written[ENFLAME.record.card_index]}"
                sums[card] += int(written[ENFLAME.record.pod_units])
        return sums

    def _write(self, kind: str, pod: Document) -> None:
        self.version += 1
        stored = {**pod, "metadata": {**pod["metadata"], "resourceVersion": self._word(self.version)}}
        if kind != "DELETED":
            self.pods[pod["metadata"]["name"]] = stored
        self.history.append(Change(self.version, kind, stored))
        over = [f"{card}: {units}" for card, units in self.recorded().items() if units > self.card_units]
        if over:
            self.overfull.append(f"at version {self.version}: {over}")
        self._changed.set()
        self._changed = asyncio.Event()

    def _word(self, version: int) -> str:
        return f"v{version}" if self.opaque else str(version)

    async def _travel(self, longest_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(0, longest_s))

    # Reads and Bindings

    async def answer(self, asked: Asked) -> Document | None:
        match asked.verb:
            case "list":
                return await self._list(asked)
            case "get":
                return await self._read(asked)
        await self._bind(asked)
        return None

    async def _bind(self, asked: Asked) -> None:
        fate = Fate.ANSWERED
        if self.rng.random() < self.trouble.lost:
            fate = self.rng.choice((Fate.ANSWER_LOST, Fate.ANSWER_LOST, Fate.REQUEST_LOST, Fate.LATE))
        await self._travel(self.trouble.travel_s)
        match fate:
            case Fate.LATE:
                task = asyncio.create_task(self._bind_later(asked))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            case Fate.ANSWERED | Fate.ANSWER_LOST:
                self._accept(asked)
        await self._travel(self.trouble.travel_s)
        if fate is not Fate.ANSWERED:
            raise UnknownOutcomeError("connection lost; it may have taken effect")

    async def _bind_later(self, asked: Asked) -> None:
        await self._travel(3.0)
        try:
            self._accept(asked)
        except (ConflictError, NotFoundError):
            return  # No one hears of it.

    def _accept(self, asked: Asked) -> None:
        pod, wanted = self.pods.get(asked.name), asked.body["metadata"]
        if pod is None:
            raise NotFoundError(f"pods {asked.name!r} not found")
        if pod["metadata"]["uid"] != wanted["uid"] or "nodeName" in pod["spec"]:
            raise ConflictError(f"pod {asked.name} is bound already, or another")
        if wanted.get("resourceVersion", "") not in ("", pod["metadata"]["resourceVersion"]):
            self.wrong_versions += 1
            raise ConflictError(f"pod {asked.name} is not at version {wanted['resourceVersion']} any more")
        metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **asked.annotations}}
        spec = {**pod["spec"], "nodeName": asked.body["target"]["name"]}
        self._write("MODIFIED", {**pod, "metadata": metadata, "spec": spec})

    async def _read(self, asked: Asked) -> Document:
        if self.rng.random() < self.trouble.unread:
            await asyncio.sleep(asked.timeout_s or 0)
            raise RetryableError("no answer in time")
        await self._travel(self.trouble.travel_s)
        found = self.pods.get(asked.name)
        await self._travel(self.trouble.travel_s)
        if found is None:
            raise NotFoundError(f"pods {asked.name!r} not found")
        return found

    # Lists and watches

    async def _list(self, asked: Asked) -> Document:
        """Answer with a page of a list; who asks for a page of one wants to know the version."""
        query = asked.query
        if query.get("limit") == "1":
            return {"metadata": {"resourceVersion": self._word(self.version)}, "items": []}
        start = int(query.get("continue", 0))
        if not start:
            await self._travel(self.trouble.travel_s)
            self._listed = self._word(self.version), [self.pods[name] for name in sorted(self.pods)]
        await self._travel(self.trouble.page_s)
        if start and self.rng.random() < self.trouble.compacted / 6:
            raise GoneError("the continue token is too old")
        version, pods = self._listed
        end = start + int(query.get("limit", len(pods)))
        more = str(end) if end < len(pods) else ""
        return {"metadata": {"resourceVersion": version, "continue": more}, "items": pods[start:end]}

    @asynccontextmanager
    async def stream(self, request: Request, stall_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._events(int(Asked.read(request).query["resourceVersion"].removeprefix("v")))

    async def _events(self, version: int) -> AsyncIterator[bytes]:
        await self._travel(self.trouble.travel_s)
        while True:
            if version < self.oldest:
                raise GoneError("too old resource version")
            fresh = [change for change in self.history if change.version > version]
            if not fresh:
                await self._changed.wait()
                continue
            await self._travel(self.trouble.event_s)
            for change in fresh[: self.rng.randint(1, 4)]:
                version = change.version
                yield msgspec.json.encode({"type": change.kind, "object": change.pod}) + b"\n"
            if self.rng.random() < self.trouble.cut:
                if self.rng.random() < self.trouble.compacted:
                    self.oldest = self.version
                raise RetryableError("the stream broke")
