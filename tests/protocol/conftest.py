"""An API server double without controllers, clients of it, and the doctor's cluster: for files without their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from tests.protocol.apiserver_client import Api
from tests.protocol.doctor_rig import DoctorRig
from tests.protocol.page_reviews import reviewing_api


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(KubeConfig(server=server.url, source="the test")) as opened:
        yield opened


@pytest.fixture
async def reviewing() -> AsyncIterator[ApiServer]:
    """One that reviews tokens."""
    async with reviewing_api() as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[DoctorRig]:
    async with DoctorRig(tmp_path) as running:
        yield running
