"""What the config-manager asks of the API server, against the double that speaks real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
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
from gcushare.config_manager.reconcile import State, WantedMode, hold_lease
from gcushare.core.errors import ConfigError, Refused, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.election import ApiLease, LeaseTimes, Tenure
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import CONFIG_MAPS, NODES, Resource
from gcushare.wire.contracts import CONFIG_MANAGER, VERBS_PORT, VERBS_PORT_NAME
from gcushare.wire.documents.node_report import NodeReport

NAMESPACE = "kube-system"
NO_API_SERVER = ConfigError("no kubeconfig")
FAST = LeaseTimes(duration_s=1, renew_deadline_s=0.6, retry_s=0.02)
ENDPOINT = HealthEndpoint("https", "127.0.0.1", 10259)
RAW_PODS: Resource[dict[str, Any]] = Resource("api/v1", "pods", dict)


def turn(
    client: KubeClient, identity: str, beat: Callable[[], None] = lambda: None
) -> AbstractAsyncContextManager[Tenure]:
    return hold_lease(ApiLease(client, NAMESPACE, CONFIG_MANAGER), identity, times=FAST, clock=SystemClock(), beat=beat)


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
