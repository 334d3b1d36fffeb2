"""A stock kubectl against the double: what people type has to work."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.apiserver.subresources import bind
from tests.unit.apiserver_objects import node, pod

KUBECTL = shutil.which("kubectl") or ""
pytestmark = [
    pytest.mark.skipif(not KUBECTL, reason="no kubectl in PATH: install one to run these tests"),
    pytest.mark.slow,  # a kubectl for each line
]

DEADLINE_S = 60.0
SAMPLE = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: binpack-1
  labels: {app: binpack-1}
spec:
  replicas: 1
  selector:
    matchLabels: {app: binpack-1}
  template:
    metadata:
      labels: {app: binpack-1}
    spec:
      containers:
      - name: binpack-1
        image: cheyang/gpu-player:v2
        resources:
          limits:
            aliyun.com/gpu-count: 1
            aliyun.com/gpu-mem: 5
"""


class Kubectl:
    """Runs kubectl with a kubeconfig and a cache of its own."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._arguments = [KUBECTL, "--kubeconfig", str(kubeconfig), "--cache-dir", str(folder / "cache")]
        self._environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command whose output is read as it comes."""
        return await asyncio.create_subprocess_exec(
            *self._arguments,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def attempt(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command; return its exit code, output and errors."""
        process = await self.start(*arguments)
        async with asyncio.timeout(DEADLINE_S):
            out, errors = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return process.returncode, out.decode(), errors.decode()

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that must succeed; return its output."""
        code, out, errors = await self.attempt(*arguments, stdin=stdin)
        assert code == 0, errors
        return out


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(ApiServerConfig()) as running:
        yield running


@pytest.fixture
def kubectl(server: ApiServer, tmp_path: Path) -> Kubectl:
    return Kubectl(server.kubeconfig(tmp_path / "kubeconfig"), tmp_path)


def _words(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


def _run(server: ApiServer, name: str, node_name: str = "n1") -> None:
    """Do what scheduler and kubelet do with a pod."""
    key = Key("default", name)
    bind(server.registry, key, {"target": {"name": node_name}}, dry_run=False)
    container = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}
    status = {
        "phase": "Running",
        "podIP": "10.1.0.7",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [container],
    }
    server.registry.update(BY_NAME["pods"], key, lambda obj: {**obj, "status": status}, status_only=True)


async def _deployed(server: ApiServer) -> str:
    found = await server.store.until(lambda: server.store.list("pods", "default"))
    name: str = found[0]["metadata"]["name"]
    return name


async def test_get_shows_the_columns_people_know(kubectl: Kubectl, server: ApiServer) -> None:
    server.registry.put(node("n1", conditions=[{"type": "Ready", "status": "True"}]))
    server.registry.put(pod("p"))
    _run(server, "p")
    header, row = _words(await kubectl("get", "pods"))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["p", "1/1", "Running", "0"]
    wide_header, wide = _words(await kubectl("get", "pod", "p", "-o", "wide"))
    assert wide_header[5:7] == ["IP", "NODE"]
    assert wide[5:7] == ["10.1.0.7", "n1"]
    assert _words(await kubectl("get", "nodes"))[1][:2] == ["n1", "Ready"]
    assert "kubernetes" in await kubectl("get", "all")
    assert _words(await kubectl("get", "no,po", "-o", "name")) == [["node/n1"], ["pod/p"]]
    assert (await kubectl("get", "pod", "p", "-o", "jsonpath={.kind} {.spec.nodeName}")) == "Pod n1"
    assert _words(await kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName=n1", "-o", "name")) == [
        ["pod/p"]
    ]
    assert not (await kubectl("get", "pods", "-l", "app=none", "-o", "name")).strip()


async def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl, server: ApiServer) -> None:
    assert await kubectl("apply", "-f", "-", stdin=SAMPLE) == "deployment.apps/binpack-1 created\n"
    await _deployed(server)
    plain = SAMPLE.replace("gpu-count: 1", "gpu-count: '1'").replace("gpu-mem: 5", "gpu-mem: '6'")
    assert await kubectl("apply", "-f", "-", stdin=plain) == "deployment.apps/binpack-1 configured\n"
    assert await kubectl("apply", "-f", "-", stdin=plain) == "deployment.apps/binpack-1 unchanged\n"
    found = server.store.get("deployments.apps", "binpack-1")
    assert found is not None
    limits = found["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"aliyun.com/gpu-count": "1", "aliyun.com/gpu-mem": "6"}
    dry = plain.replace("'6'", "'7'")
    assert "(server dry run)" in await kubectl("apply", "--dry-run=server", "-f", "-", stdin=dry)
    code, difference, _ = await kubectl.attempt("diff", "-f", "-", stdin=dry)
    assert (code, '+            aliyun.com/gpu-mem: "7"' in difference) == (1, True)
    assert "serverside-applied" in await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=dry)
