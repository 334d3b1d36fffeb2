"""A stock kubectl against the doubles: what it creates itself, in protobuf from 1.32 on, and ``exec``."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.kubelet.logserver import LogServer
from gcushare_playground.kubelet.settings import KubeletSettings
from gcushare_playground.kubelet.views import ContainerView, DeviceView
from tests.protocol.commands import Ran, run_program
from tests.unit.apiserver_objects import node, pod

KUBECTL = shutil.which("kubectl") or ""
OLDEST_WITH_WEBSOCKETS = 31
pytestmark = pytest.mark.skipif(not KUBECTL, reason="no kubectl in PATH")


@dataclass(frozen=True, slots=True)
class Kubectl:
    server: ApiServer
    words: tuple[str, ...]

    async def run(self, *words: str) -> Ran:
        ran = await run_program(*self.words, *words)
        assert ran.code == 0, ran.err
        return ran

    async def show(self, *words: str) -> JsonObject:
        """Run it, and read the JSON that it prints."""
        ran = await self.run(*words)
        return ran.document if ran.out else {}


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with ApiServer(ApiServerConfig()) as server:
        file = server.kubeconfig(tmp_path / "kubeconfig")
        yield Kubectl(server, (KUBECTL, "--kubeconfig", str(file), "--cache-dir", str(tmp_path / "cache")))


def lacking(wanted: object, found: object, at: str = "") -> list[str]:
    """What ``found`` has not, or has otherwise; what it has in addition is the server's."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [text for key in wanted for text in lacking(wanted[key], found.get(key), f"{at}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = enumerate(zip(wanted, found, strict=True))
        return [text for place, pair in pairs for text in lacking(*pair, f"{at}[{place}]")]
    return [] if wanted in (None, found) else [f"{at}: {found!r}, not {wanted!r}"]


@pytest.mark.parametrize(
    "words",
    [
        ("deployment", "a", "--image=app:1", "--replicas=2", "--port=80"),
        ("secret", "generic", "a", "--from-literal=a=b"),
        ("service", "loadbalancer", "a", "--tcp=80:web"),
        ("quota", "a", "--hard=pods=1,requests.enflame.com/gcu-memory=4"),
        ("poddisruptionbudget", "a", "--selector=a=b", "--min-available=0"),
    ],
    ids=lambda words: words[0],
)
async def test_what_it_creates_is_what_it_says_that_it_creates(kubectl: Kubectl, words: tuple[str, ...]) -> None:
    said = await kubectl.show("create", *words, "--dry-run=client", "-o", "json")
    assert lacking(said, await kubectl.show("create", *words, "-o", "json")) == []


async def test_a_copy_of_a_pod_for_debugging_is_like_the_pod(kubectl: Kubectl, tmp_path: Path) -> None:
    source = pod("a")
    source["spec"] |= {"nodeSelector": {"a": "b"}, "terminationGracePeriodSeconds": 0, "hostPID": True}
    (tmp_path / "pod.json").write_text(json.dumps(source))
    made = await kubectl.show("create", "-f", str(tmp_path / "pod.json"), "-o", "json")
    image = made["spec"]["containers"][0]["image"]
    await kubectl.show("debug", "a", "--copy-to=b", f"--set-image=*={image}", "-q")
    assert (await kubectl.show("get", "pod", "b", "-o", "json"))["spec"] == made["spec"]


DEVICES = [DeviceView(path, path, "rw") for path in ("/dev/gcu3", "/dev/gcuctl")]
NOTHING: dict[str, Any] = {"environment": {}, "mounts": [], "annotations": {}, "cdi_devices": [], "device_ids": {}}
GIVEN = ContainerView(name="main", image="busybox", has_ended=False, started="", devices=DEVICES, **NOTHING)


def only_main(namespace: str, name: str, container: str) -> ContainerView | None:
    return GIVEN if (namespace, name, container) == ("default", "p", "main") else None


async def test_exec_lists_the_devices_over_a_websocket(kubectl: Kubectl) -> None:
    version = await kubectl.show("version", "--client", "-o", "json")
    if int(version["clientVersion"]["minor"].rstrip("+")) < OLDEST_WITH_WEBSOCKETS:
        pytest.skip("no kubectl 1.31 or later in PATH: older ones open no WebSocket for exec")
    kubelet = LogServer(KubeletSettings(node_name="n1", root_dir=Path("/nowhere")), only_main)
    await kubelet.start()
    address = [{"type": "InternalIP", "address": "127.0.0.1"}]
    daemon = {"kubeletEndpoint": {"Port": kubelet.port}}
    kubectl.server.registry.put(node("n1", addresses=address, daemonEndpoints=daemon))
    kubectl.server.registry.put(pod(nodeName="n1"))
    assert "gcu3" in (await kubectl.run("exec", "p", "--", "ls", "/dev")).lines
    await kubelet.stop()
