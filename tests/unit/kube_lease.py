"""A lease as the API server keeps it, and a candidate's way to it that can be cut, hang or lose answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from gcushare.core.errors import ConflictError, NotFoundError, RetryableError
from gcushare.kube.errors import AlreadyExistsError, UnknownOutcomeError
from gcushare.wire.objects import Lease, LeaseSpec
from tests.unit.kube_time import VirtualClock


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
class LeaseAccess:
    """One candidate's way to the lease, which can be cut (fails at once), hang, or lose answers after the effect."""

    server: LeaseServer
    clock: VirtualClock
    cut: bool = False
    hanging: bool = False
    answers_lost: bool = False
    name: str = "extender"
    namespace: str = "kube-system"

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

    async def read(self, timeout_s: float) -> Lease:
        await self._reach(timeout_s)
        if self.server.lease is None:
            raise NotFoundError("no such lease")
        return self.server.lease

    async def create(self, lease: Lease, timeout_s: float) -> Lease:
        await self._reach(timeout_s)
        if self.server.lease is not None:
            raise AlreadyExistsError("there is one")
        return self._answer(self.server.store(lease))

    async def write(self, spec: LeaseSpec, resource_version: str, timeout_s: float) -> Lease:
        await self._reach(timeout_s)
        if self.server.lease is None:
            raise NotFoundError("no such lease")
        if resource_version != self.server.lease.metadata.resource_version:
            raise ConflictError("the object has been modified")
        return self._answer(self.server.store(msgspec.structs.replace(self.server.lease, spec=spec)))
