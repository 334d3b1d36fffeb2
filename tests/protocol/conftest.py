"""An API server double without controllers, for test files that define no fixture of that name."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from tests.protocol.apiserver_client import Api


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        yield running


@pytest.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with Api(server) as session:
        yield session
