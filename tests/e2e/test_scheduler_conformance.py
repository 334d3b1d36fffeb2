"""A real kube-scheduler does with an extender and its pods what the double does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from gcushare.config_manager.scheduler_config.document import ConfigDocument
from gcushare.config_manager.scheduler_config.versions import ConfigFormat
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import SCHEDULER, ControlPlane
from tests.protocol.scheduler_under_test import SchedulerUnderTest
from tests.protocol.test_scheduler_conformance import *  # noqa: F403 - every test of there, on this module's fixture  # noqa: F403


class RealScheduler:
    """kube-scheduler of a control plane."""

    pace = 1.0

    def __init__(self, control_plane: ControlPlane) -> None:
        self.client = control_plane.client
        self._control_plane = control_plane

    async def start(self, configuration: str) -> None:
        kubeconfig = self._control_plane.kubeconfig_of(SCHEDULER)
        connection = f'clientConnection: {{kubeconfig: "{kubeconfig}", qps: 5000, burst: 5000}}\n'
        await self._control_plane.start_scheduler(ConfigDocument(configuration + connection, ConfigFormat.V1))

    async def stop(self) -> None:
        if "kube-scheduler" in self._control_plane.children:
            await self._control_plane.end("kube-scheduler")


@pytest_asyncio.fixture(name="cluster", loop_scope="module")
async def _cluster(control_plane: ControlPlane) -> AsyncIterator[SchedulerUnderTest]:
    need_binaries("kube-scheduler")
    async with SchedulerUnderTest(RealScheduler(control_plane)) as started:
        yield started
