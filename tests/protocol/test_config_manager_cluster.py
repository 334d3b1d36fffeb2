"""What the config manager asks of the API server, and an uninstall by all nodes, against the double."""

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

from gcushare.cluster.programs import SERVICES
from gcushare.config_manager.extender_address import find_extender
from gcushare.config_manager.host.launch import HealthEndpoint
from gcushare.config_manager.host.running_scheduler import Running, find_mirror_pod, poll_host
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.node_reports import SharedConfigMap, read_reports, write_mode
from gcushare.config_manager.reconcile import ROLLOUT_TIMES, Reconciler, State, WantedMode, hold_lease
from gcushare.core.errors import ConfigError, Refused, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.election import ApiLease, LeaseTimes, Tenure
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import CONFIG_MAPS, NODES, Resource
from gcushare.wire.contracts import CONFIG_MANAGER, VERBS_PORT, VERBS_PORT_NAME
from gcushare.wire.documents.node_report import NodeReport
from gcushare_playground.apiserver import ApiServer, FailBefore, Fault
from tests.api_objects import an_object
from tests.protocol.config_manager_node import until
from tests.protocol.test_config_manager_commands import URL, call
from tests.unit.config_manager_host import Host, ManualClock, host_with

NAMESPACE = "kube-system"
NO_API_SERVER = ConfigError("no kubeconfig")
FAST = LeaseTimes(duration_s=1, renew_deadline_s=0.6, retry_s=0.02)
ENDPOINT = HealthEndpoint("https", "127.0.0.1", 10259)
RAW_PODS: Resource[dict[str, Any]] = Resource("api/v1", "pods", dict)


def turn(
    client: KubeClient, identity: str, beat: Callable[[], None] = lambda: None, times: LeaseTimes = FAST
) -> AbstractAsyncContextManager[Tenure]:
    lease = ApiLease(client, NAMESPACE, CONFIG_MANAGER)
    return hold_lease(lease, identity, times=times, clock=SystemClock(), beat=beat)


async def make_service(client: KubeClient, spec: dict[str, Any]) -> None:
    body = {"metadata": {"name": "gcushare-scheduler-extender"}, "spec": {"ports": [{"port": 32766}], **spec}}
    await client.create(SERVICES, body, namespace=NAMESPACE)


async def test_the_extenders_address_is_its_services_cluster_ip(client: KubeClient, tmp_path: Path) -> None:
    await make_service(client, {"clusterIP": "10.96.1.37"})
    assert (await find_extender(client, ExtenderOptions())).url == "http://10.96.1.37:32766"
    ca = tmp_path / "ca.crt"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    secure = await find_extender(client, ExtenderOptions(tls_ca=ca))
    assert secure.url == "https://10.96.1.37:32766"
    assert secure.tls is not None
    assert secure.tls.server_name == "gcushare-scheduler-extender.kube-system.svc"


async def test_a_scheduler_with_a_certificate_is_sent_to_the_port_that_is_its_own(
    client: KubeClient, tmp_path: Path
) -> None:
    ports = [{"name": "http", "port": 32766}, {"name": VERBS_PORT_NAME, "port": VERBS_PORT}]
    await make_service(client, {"clusterIP": "10.96.1.37", "ports": ports})
    file = tmp_path / "any.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    shown = await find_extender(client, ExtenderOptions(tls_ca=file, tls_cert=file, tls_key=file))
    assert shown.url == f"https://10.96.1.37:{VERBS_PORT}"
    assert (await find_extender(client, ExtenderOptions(tls_ca=file))).url == "https://10.96.1.37:32766"
    assert (await find_extender(client, ExtenderOptions())).url == "http://10.96.1.37:32766"


async def test_tls_files_are_read_each_time_and_checked(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    options = ExtenderOptions(extender_url="https://10.0.0.1:1", tls_ca=ca, tls_server_name="x")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        await find_extender(NO_API_SERVER, options)
    ca.write_text("nonsense")
    with pytest.raises(ConfigError, match="is not PEM"):
        await find_extender(NO_API_SERVER, options)
    for content in (b"-----BEGIN A\n", b"-----BEGIN B\n"):
        ca.write_bytes(content)
        tls = (await find_extender(NO_API_SERVER, options)).tls
        assert tls is not None
        assert (tls.ca, tls.server_name) == (content, "x")


async def test_the_mode_is_apply_unless_the_config_map_has_another(client: KubeClient) -> None:
    desired = SharedConfigMap(client, ExtenderOptions(), NAMESPACE, "cp-1")
    assert await desired.mode() is WantedMode.APPLY
    await write_mode(client, NAMESPACE, WantedMode.RECOVER)
    assert await desired.mode() is WantedMode.RECOVER
    await write_mode(client, NAMESPACE, WantedMode.APPLY)
    assert await desired.mode() is WantedMode.APPLY
    patch = Patch(PatchKind.MERGE, {"data": {"mode": "remove"}})
    await client.patch(CONFIG_MAPS, CONFIG_MANAGER, patch, namespace=NAMESPACE)
    with pytest.raises(RemoteContractError, match="mode is 'remove', expected 'apply' or 'recover'"):
        await desired.mode()


async def test_reports_of_many_nodes_keep_each_other_and_the_mode(client: KubeClient) -> None:
    names = [f"cp-{number}.example.org" for number in range(5)]
    for name in names[:4]:
        await client.create(NODES, {"metadata": {"name": name}})
    assert await read_reports(client, NAMESPACE) == []
    await write_mode(client, NAMESPACE, WantedMode.RECOVER)
    reporters = [SharedConfigMap(client, ExtenderOptions(), NAMESPACE, name) for name in names]
    await asyncio.gather(*(reporter.report(State.APPLIED, "") for reporter in reporters))
    await reporters[1].report(State.FAILED, "it keeps restarting")
    expected = [NodeReport(name, "applied", "") for name in names[:4]]
    expected[1] = NodeReport(names[1], "failed", "it keeps restarting")
    assert await read_reports(client, NAMESPACE) == expected, "a node that is gone is not waited for"
    found = await client.get(CONFIG_MAPS, CONFIG_MANAGER, namespace=NAMESPACE)
    assert found.data["mode"] == "recover"
    reported = json.loads(found.data[f"node.{names[0]}"])
    assert reported == {"state": "applied", "reason": ""}


async def test_an_error_in_a_turn_passes_as_it_is_and_ends_the_turn(client: KubeClient) -> None:
    with pytest.raises(Refused, match="no"):
        async with turn(client, "one"):
            raise Refused("no")
    async with asyncio.timeout(60), turn(client, "two"):
        pass


async def test_a_node_that_waits_for_the_lease_does_not_count_as_stuck(client: KubeClient) -> None:
    beaten = asyncio.Event()
    async with turn(client, "one"):
        waiting = asyncio.create_task(enter(turn(client, "two", beaten.set)))
        for _ in range(3):
            beaten.clear()
            await asyncio.wait_for(beaten.wait(), 60)
        waiting.cancel()
        await asyncio.wait((waiting,))
    beaten.clear()
    async with turn(client, "two", beaten.set):
        assert beaten.is_set(), "the change has all the time that it may take"


async def enter(waiting: AbstractAsyncContextManager[Tenure]) -> None:
    async with waiting:
        raise AssertionError("it is not its turn")


async def test_the_scheduler_is_seen_through_its_mirror_pod(client: KubeClient) -> None:
    assert await find_mirror_pod(client, "cp-1", ENDPOINT) is None
    body = {
        "metadata": {"name": "kube-scheduler-cp-1", "annotations": {"kubernetes.io/config.hash": "h1"}},
        "spec": {"containers": [{"name": "s", "image": "i", "command": ["kube-scheduler"], "args": ["--config=/x"]}]},
    }
    await client.create(RAW_PODS, body, namespace=NAMESPACE)
    assert await find_mirror_pod(client, "cp-1", ENDPOINT) is None, "its container does not run yet"
    status = {"containerStatuses": [{"name": "s", "containerID": "containerd://1", "state": {"running": {}}}]}
    patch = Patch(PatchKind.MERGE, {"status": status})
    await client.patch(RAW_PODS, "kube-scheduler-cp-1", patch, namespace=NAMESPACE, subresource="status")
    seen = Running("h1/containerd://1", ("kube-scheduler", "--config=/x"))
    assert await find_mirror_pod(client, "cp-1", ENDPOINT) == seen
    both = [partial(find_mirror_pod, client, node) for node in ("none", "cp-1")]
    assert (await poll_host(both, ENDPOINT)).running == seen
    assert (await poll_host([], ENDPOINT)).running is None


Uninstall = Callable[..., Coroutine[Any, Any, tuple[int, list[str], str]]]


@pytest.fixture
def client(server: ApiServer, client: KubeClient) -> KubeClient:
    server.registry.put(an_object("Node", "cp-1"))
    return client


def config_manager(client: KubeClient, host: Host) -> Reconciler:
    state = SharedConfigMap(client, ExtenderOptions(extender_url=URL), NAMESPACE, "cp-1")
    own_turn = partial(turn, client, "cp-1", times=ROLLOUT_TIMES)
    return Reconciler(manager=host.manager, cluster=state, hold_lease=own_turn, clock=host.clock, interval_s=10.0)


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


@pytest.mark.slow
async def test_a_node_in_the_middle_of_its_first_change_is_waited_for(
    client: KubeClient, host: Host, uninstall: Uninstall
) -> None:
    before = host.tree()
    go_on = asyncio.Event()
    held = host.clock = ManualClock(go_on)
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
    go_on.set()
    await asyncio.wait_for(changing, 60)
    await loop.round()
    answer = ["waiting: cp-1 is changing", "1 node recovered: cp-1"]
    assert await asyncio.wait_for(uninstalling, 60) == (0, answer, "")
    assert host.tree() == before


async def test_a_node_that_waited_for_its_turn_meanwhile_changes_nothing_any_more(
    client: KubeClient, host: Host, loop: Reconciler, uninstall: Uninstall
) -> None:
    before = host.tree()
    async with turn(client, "another", times=ROLLOUT_TIMES):
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
