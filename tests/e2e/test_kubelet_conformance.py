"""A real kubelet does with a device plugin and its pods what the double does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest_asyncio

from tests.e2e.control_plane import ControlPlane
from tests.e2e.images import NAME
from tests.e2e.machine import Machine
from tests.protocol.node_under_test import JsonObject, NodeUnderTest
from tests.protocol.test_kubelet_conformance import *  # noqa: F403 - every test of there, on this module's fixture


class RealKubelet:
    """A kubelet of this machine."""

    image = NAME

    def __init__(self, machine: Machine) -> None:
        self.client = machine.control_plane.client
        self.root: Path = machine.root
        self._machine = machine

    async def restart(self) -> None:
        await self._machine.kill_kubelet()
        await self._machine.start_kubelet()

    async def end_container(self, pod: JsonObject, container: str) -> None:
        statuses = pod["status"]["containerStatuses"]
        (at,) = (each["containerID"] for each in statuses if each["name"] == container)
        await self._machine.end_container(at.removeprefix("containerd://"))

    async def environment(self, pod: JsonObject, container: str) -> Mapping[str, str]:
        return await self._machine.environment(pod, container)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubelet(control_plane: ControlPlane) -> AsyncIterator[RealKubelet]:
    async with Machine(control_plane) as machine:
        yield RealKubelet(machine)


@pytest_asyncio.fixture(name="node", loop_scope="module")
async def _node(kubelet: RealKubelet) -> AsyncIterator[NodeUnderTest]:
    async with NodeUnderTest(kubelet) as started:
        yield started
