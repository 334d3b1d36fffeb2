"""``helm uninstall`` while a node changes its scheduler, or waits for its turn: no node is left as it was changed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.node_reports import SharedConfigMap, read_reports, write_mode
from gcushare.config_manager.reconcile import Reconciler, WantedMode, hold_lease
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.election import ApiLease, Tenure
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import CONFIG_MAPS
from gcushare.wire.contracts import CONFIG_MANAGER
from gcushare_playground.apiserver import ApiServer, FailBefore, Fault
from tests.api_objects import an_object
from tests.protocol.config_manager_node import until
from tests.protocol.test_config_manager_commands import URL, call
from tests.unit.config_manager_host import Host, ManualClock, host_with

NAMESPACE = "kube-system"
Uninstall = Callable[..., Coroutine[Any, Any, tuple[int, list[str], str]]]


@pytest.fixture
def client(server: ApiServer, client: KubeClient) -> KubeClient:
    server.registry.put(an_object("Node", "cp-1"))
    return client


def turn(client: KubeClient, identity: str) -> AbstractAsyncContextManager[Tenure]:
    return hold_lease(ApiLease(client, NAMESPACE, CONFIG_MANAGER), identity, clock=SystemClock())


def config_manager(client: KubeClient, host: Host) -> Reconciler:
    state = SharedConfigMap(client, ExtenderOptions(extender_url=URL), NAMESPACE, "cp-1")
    return Reconciler(
        manager=host.manager, cluster=state, hold_lease=partial(turn, client, "cp-1"), clock=host.clock, interval_s=10.0
    )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_with(tmp_path / "host", "kubeadm-1.29.yaml")


@pytest.fixture
def loop(client: KubeClient, host: Host) -> Reconciler:
    """The config manager of the host."""
    return config_manager(client, host)


@pytest.fixture
def uninstall(server: ApiServer, tmp_path: Path) -> Uninstall:
    """The command, as the hook of the chart runs it."""
    return partial(call, "uninstall", f"--kubeconfig={server.kubeconfig(tmp_path / 'kubeconfig')}")


class HeldClock(ManualClock):
    """Time stands still until ``go_on`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting, self.go_on = asyncio.Event(), asyncio.Event()

    async def sleep(self, delay_s: float) -> None:
        self.waiting.set()
        await self.go_on.wait()
        await super().sleep(delay_s)


@pytest.mark.slow
async def test_a_node_in_the_middle_of_its_first_change_is_waited_for(
    client: KubeClient, host: Host, uninstall: Uninstall
) -> None:
    before = host.tree()
    held = host.clock = HeldClock()
    loop = config_manager(client, host)
    changing = asyncio.create_task(loop.round())
    await asyncio.wait_for(held.waiting.wait(), 60)
    assert host.tree() != before, "the manifest is switched already"
    uninstalling = asyncio.create_task(uninstall())
    desired = SharedConfigMap(client, ExtenderOptions(extender_url=URL), NAMESPACE, "another")

    async def is_wanted_back() -> bool:
        return (await desired.mode()).value == "recover"

    await until(is_wanted_back, "the wish to recover is written")
    await asyncio.wait((uninstalling,), timeout=0.5)
    assert not uninstalling.done()
    held.go_on.set()
    await asyncio.wait_for(changing, 60)
    await loop.round()
    answer = ["waiting: cp-1 is changing", "1 node recovered: cp-1"]
    assert await asyncio.wait_for(uninstalling, 60) == (0, answer, "")
    assert host.tree() == before


async def test_a_node_that_waited_for_its_turn_meanwhile_changes_nothing_any_more(
    client: KubeClient, host: Host, loop: Reconciler, uninstall: Uninstall
) -> None:
    before = host.tree()
    async with turn(client, "another"):
        waiting = asyncio.create_task(loop.round())
        assert await uninstall() == (0, ["0 nodes recovered: none"], "")
        assert not waiting.done()
    await asyncio.wait_for(waiting, 60)
    assert host.tree() == before
    assert [report.state for report in await read_reports(client, NAMESPACE)] == ["recovered"]


@pytest.mark.parametrize("is_recreated", [False, True], ids=["gone", "recreated"])
async def test_a_node_reports_again_if_its_report_was_lost(
    client: KubeClient, loop: Reconciler, is_recreated: bool
) -> None:
    await loop.round()
    reported = await read_reports(client, NAMESPACE)
    assert [report.state for report in reported] == ["applied"]
    await client.delete(CONFIG_MAPS, CONFIG_MANAGER, namespace=NAMESPACE)
    if is_recreated:
        await write_mode(client, NAMESPACE, WantedMode.APPLY)
    await loop.round()
    assert await read_reports(client, NAMESPACE) == reported
    written = await client.get(CONFIG_MAPS, CONFIG_MANAGER, namespace=NAMESPACE)
    await loop.round()
    assert await client.get(CONFIG_MAPS, CONFIG_MANAGER, namespace=NAMESPACE) == written, "what stands is left"


@pytest.mark.slow
async def test_an_api_server_that_fails_for_a_while_does_not_end_an_uninstall(
    server: ApiServer, loop: Reconciler, uninstall: Uninstall
) -> None:
    await loop.round()
    for method, path in (("PATCH", "/configmaps/"), ("GET", "/nodes/cp-1")):
        server.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "busy"), path=path, method=method, count=1))
    uninstalling = asyncio.create_task(uninstall())
    while not uninstalling.done():
        await loop.round()
        await asyncio.wait((uninstalling,), timeout=0.1)
    code, lines, errors = uninstalling.result()
    assert (code, lines.pop(), errors) == (0, "1 node recovered: cp-1", "")
    assert all(line.startswith("waiting: ") for line in lines)


@pytest.mark.slow
async def test_an_uninstall_over_an_api_server_that_goes_on_failing_says_so_in_the_end(
    server: ApiServer, uninstall: Uninstall
) -> None:
    server.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "busy"), path="/configmaps"))
    code, _, errors = await uninstall("--wait-timeout=1s")
    assert code != 0
    assert "not every scheduler is recovered after 1 s" in errors
    assert "busy" in errors


@pytest.mark.slow
async def test_a_node_without_a_config_manager_is_named_with_the_way_out(
    client: KubeClient, loop: Reconciler, uninstall: Uninstall
) -> None:
    await loop.round()
    code, lines, errors = await uninstall("--wait-timeout=1s")
    assert (code, lines) == (1, ["waiting: cp-1 is applied"])
    way_out = re.search(r"-n kube-system --type merge -p '(.*)'", errors)
    assert way_out is not None, errors
    patch = json.loads(way_out[1].replace("NAME", "cp-1"))
    await client.patch(CONFIG_MAPS, CONFIG_MANAGER, Patch(PatchKind.MERGE, patch), namespace=NAMESPACE)
    assert await uninstall("--wait-timeout=1s") == (0, ["0 nodes recovered: none"], "")


async def test_a_config_map_that_is_gone_is_named_where_the_rights_do_not_let_it_be_created(
    server: ApiServer, uninstall: Uninstall
) -> None:
    refused = FailBefore(403, "Forbidden", "configmaps is forbidden")
    server.faults.on(Fault(refused, path="/configmaps", method="POST"))
    code, lines, errors = await uninstall()
    assert (code, lines) == (1, [])
    assert "ConfigMap gcushare-config-manager is gone from namespace kube-system" in errors
    assert "helm upgrade" in errors
