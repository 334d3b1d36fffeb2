"""A lease as the API server keeps it, and a candidate's way to it that can be cut, hang or lose answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from gcushare.core.errors import ConflictError, NotFoundError, RetryableError
from gcushare.kube.election import ApiLease
from gcushare.kube.errors import AlreadyExistsError, UnknownOutcomeError
from gcushare.wire.objects import Lease, LeaseSpec
from tests.played_api import Asked, PlayedApi
from tests.unit.kube_time import VirtualClock, VirtualTime


@dataclass
class LeaseServer:
    """The lease as the API server keeps it."""

    lease: Lease | None = None
    version: int = 0
    writes: int = 0

    def store(self, lease: Lease) -> Lease:
        self.version += 1
        self.writes += 1
        metadata = msgspec.structs.replace(lease.metadata, resource_version=str(self.version), uid="lease-uid")
        self.lease = msgspec.structs.replace(lease, metadata=metadata)
        return self.lease

    @property
    def holder(self) -> str | None:
        return None if self.lease is None else self.lease.spec.holder_identity


@dataclass
class LeaseAccess(PlayedApi):
    """One candidate's way to the lease, which can be cut (fails at once), hang, or lose answers after the effect."""

    server: LeaseServer
    clock: VirtualClock
    cut: bool = False
    hanging: bool = False
    answers_lost: bool = False

    @property
    def lease(self) -> ApiLease:
        return ApiLease(self.client, "kube-system", "extender")

    async def _reach(self, timeout_s: float) -> None:
        assert timeout_s > 0
        if self.cut:
            raise RetryableError("connection refused")
        if self.hanging:
            await self.clock.sleep(timeout_s)
            raise UnknownOutcomeError("no answer in time")
        await asyncio.sleep(0)

    def _answer(self, lease: Lease) -> Lease:
        if self.answers_lost:
            raise UnknownOutcomeError("connection lost after sending")
        return lease

    async def answer(self, asked: Asked) -> Lease:
        await self._reach(asked.timeout_s or 0)
        there = self.server.lease
        if asked.verb == "create":
            if there is not None:
                raise AlreadyExistsError("there is one")
            return self._answer(self.server.store(msgspec.convert(asked.body, Lease)))
        if there is None:
            raise NotFoundError("no such lease")
        if asked.verb == "get":
            return there
        if asked.body["metadata"]["resourceVersion"] != there.metadata.resource_version:
            raise ConflictError("the object has been modified")
        spec = msgspec.convert(msgspec.to_builtins(there.spec) | asked.body["spec"], LeaseSpec)
        return self._answer(self.server.store(msgspec.structs.replace(there, spec=spec)))


class Elected(Protocol):
    """What takes part in an election while it runs."""

    @property
    def is_leader(self) -> bool: ...

    async def run(self) -> None: ...


E = TypeVar("E", bound=Elected)


@dataclass
class Contender(Generic[E]):
    """One that takes part, and its way to the lease."""

    name: str
    access: LeaseAccess
    elected: E
    task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.elected.run(), name=self.name)

    async def stop(self) -> None:
        """SIGTERM: the program cancels the election and waits for its end."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])


@dataclass
class LeaseWorld(Generic[E]):
    """A lease on virtual time, and those who want it; all of them are stopped at its end."""

    time: VirtualTime = field(default_factory=VirtualTime)
    server: LeaseServer = field(default_factory=LeaseServer)
    contenders: list[Contender[E]] = field(default_factory=list)

    @property
    def leaders(self) -> list[str]:
        return [each.name for each in self.contenders if each.elected.is_leader]

    async def pass_watching(self, seconds: float) -> None:
        """Let time pass in small steps and check the one thing that must always hold."""
        for _ in range(int(seconds * 10)):
            await self.time.pass_(0.1)
            assert len(self.leaders) <= 1, self.leaders

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self.contenders:
            each.access.cut = True
            await each.stop()
