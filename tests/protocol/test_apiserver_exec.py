"""``kubectl exec`` against the doubles: a WebSocket to the API server, and the kubelet's answer to ``ls /dev``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.kubelet.logserver import LogServer
from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.kubelet.views import ContainerView, DeviceView
from tests.protocol.commands import run_program
from tests.unit.apiserver_objects import node, pod

KUBECTL = shutil.which("kubectl") or ""
OLDEST_WITH_WEBSOCKETS = 31
DEVICES = [DeviceView(path, path, "rw") for path in ("/dev/gcu3", "/dev/gcuctl")]
NOTHING: dict[str, Any] = {"environment": {}, "mounts": [], "annotations": {}, "cdi_devices": [], "device_ids": {}}
GIVEN = ContainerView(name="main", image="busybox", has_ended=False, started="", devices=DEVICES, **NOTHING)


def only_main(namespace: str, name: str, container: str) -> ContainerView | None:
    return GIVEN if (namespace, name, container) == ("default", "p", "main") else None


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """An API server with a pod on a node whose kubelet answers."""
    kubelet = LogServer(KubeletSettings(node_name="n1", root_dir=Path("/nowhere")), only_main)
    await kubelet.start()
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as running:
        address = [{"type": "InternalIP", "address": "127.0.0.1"}]
        daemon = {"kubeletEndpoint": {"Port": kubelet.port}}
        running.registry.put(node("n1", addresses=address, daemonEndpoints=daemon))
        running.registry.put(pod(nodeName="n1"))
        yield running
    await kubelet.stop()


def kubectl_opens_websockets() -> bool:
    if not KUBECTL:
        return False
    words = [KUBECTL, "version", "--client", "-o", "json"]
    found = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["clientVersion"]
    return int(found["minor"].rstrip("+")) >= OLDEST_WITH_WEBSOCKETS


async def test_a_stock_kubectl_lists_the_devices(server: ApiServer, tmp_path: Path) -> None:
    if not kubectl_opens_websockets():
        pytest.skip("no kubectl 1.31 or later in PATH: older ones open no WebSocket for exec")
    places = ("--kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig")), "--cache-dir", str(tmp_path / "cache"))
    ran = await run_program(KUBECTL, *places, "exec", "p", "--", "ls", "/dev")
    assert (ran.code, "gcu3" in ran.lines) == (0, True), ran.err
