"""What the tests against real Kubernetes share: clusters, one event loop per module, and logs when something fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
import pytest_asyncio
from pytest_asyncio import is_async_test

from tests.e2e.assets import need_binaries, too_old
from tests.e2e.control_plane import ControlPlane
from tests.e2e.figures import Figures
from tests.e2e.machine import Machine
from tests.e2e.node_side import StartNode, node_starter
from tests.e2e.scheduling import Scheduling

_RUNNING: list[ControlPlane] = []
_FIGURES = Figures()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here, and run each module's tests on the loop on which its processes are watched."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.e2e)
        item.add_marker(pytest.mark.timeout(600))
        if why := too_old(f"{item.path.name}::{item.name}"):
            item.add_marker(pytest.mark.skip(reason=why))
        if is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show every process's last lines with a failure; GCUSHARE_E2E_LOGS names a folder that keeps whole logs."""
    report = yield
    if report.failed and Path(__file__).parent in item.path.parents:
        for number, cluster in enumerate(_RUNNING):
            report.sections.append((f"processes of cluster {number}", cluster.describe()))
            if folder := os.environ.get("GCUSHARE_E2E_LOGS"):
                shutil.copytree(cluster.logs, Path(folder) / item.name, dirs_exist_ok=True)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what was measured."""
    for table in _FIGURES.tables:
        terminalreporter.section("figures")
        terminalreporter.write_line(table)


@pytest.fixture
def figures() -> Figures:
    """Take the tables that the run shows at its end."""
    return _FIGURES


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane() -> AsyncIterator[ControlPlane]:
    """Start etcd and kube-apiserver of the module's own."""
    async with ControlPlane() as running:
        _RUNNING.append(running)
        yield running
        _RUNNING.remove(running)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def machine(control_plane: ControlPlane) -> AsyncIterator[Machine]:
    """Make this machine the control plane's node, for tests that schedule onto it."""
    need_binaries("kube-scheduler")
    async with Machine(control_plane) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def start_node(machine: Machine, request: pytest.FixtureRequest) -> AsyncIterator[StartNode]:
    """Start plugin, extender and scheduler for one test's cards; a module may give ``NODE_OPTIONS``."""
    async with node_starter(machine, **getattr(request.module, "NODE_OPTIONS", {})) as start:
        yield start


@pytest_asyncio.fixture(loop_scope="module")
async def scheduling(control_plane: ControlPlane) -> AsyncIterator[Scheduling]:
    """Start an extender, and a scheduler that calls it, for one test."""
    need_binaries("kube-scheduler")
    async with Scheduling(control_plane) as running:
        await running.start_all()
        yield running
