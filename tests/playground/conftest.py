"""An admin's machine for the tests of the packages' scripts."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.charts import DEPLOY
from tests.playground.deploy_rig import CONTROL_PLANE, Bench, control_plane_node, put_image_tool, started_site


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Copies of the packages, and a cluster of two nodes, one of the control plane."""
    shutil.copytree(DEPLOY, tmp_path / "deploy", symlinks=True, ignore=shutil.ignore_patterns("images"))
    put_image_tool(tmp_path / "bin", "docker", "ctr")
    (tmp_path / "home").mkdir()
    async with started_site(tmp_path / "home") as site:
        site.server.registry.put(control_plane_node("n1"))
        worker = control_plane_node("n2")
        del worker["metadata"]["labels"][CONTROL_PLANE]
        site.server.registry.put(worker)
        yield Bench(site, tmp_path)
