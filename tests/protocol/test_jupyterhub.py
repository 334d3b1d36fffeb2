"""The values for JupyterHub in docs/one-card.md: KubeSpawner's pods ask for the amounts, idle servers are stopped."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import runpy
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gcushare.vendors import ALIYUN
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from tests.documents import ROOT, page_yaml
from tests.extender_objects import a_node, filter_body, state_of
from tests.monitoring import needs_promtool, run_promtool
from tests.protocol.kube_server import serving
from tests.unit.extender_desk import Desk

VALUES = page_yaml("one-card.md", "# jupyterhub")
SCRIPT = ROOT / "deploy" / "jupyterhub" / "cull_cards.py"
(PIN,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["jupyterhub"]


def installed_spawner() -> str:
    """How pip would write the KubeSpawner that is here; empty where there is none."""
    try:
        return f"jupyterhub-kubespawner=={importlib.metadata.version('jupyterhub-kubespawner')}"
    except importlib.metadata.PackageNotFoundError:
        return ""


@pytest.mark.skipif(
    installed_spawner() != PIN, reason=f"no {PIN}: .venv/bin/pip install -e '.[jupyterhub]' -c constraints.txt"
)
def test_the_pods_that_kubespawner_makes_ask_for_what_their_profile_says(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", "http://127.0.0.1:1", token=None, authority=None, namespace="hub"
    )
    words = [sys.executable, str(Path(__file__).with_name("kubespawner_pods.py"))]
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    printed = subprocess.check_output(words, input=json.dumps(VALUES), env=environ, text=True, timeout=100)
    pods = json.loads(printed)
    asked = {name: pod["spec"]["containers"][0]["resources"].get("limits") for name, pod in pods.items()}
    assert asked == {
        "2 GiB of the card": {ALIYUN.memory_resource: "2"},
        "5 GiB of the card": {ALIYUN.memory_resource: "5"},
        "No card": {},
    }
    # On a card of 4 GiB the extender, once it is there, places the one and refuses the other.
    desk = Desk((state_of(a_node("node-1", 4, vendor=ALIYUN), vendor=ALIYUN), None))
    answers = {}
    for name, pod in list(pods.items())[:2]:
        pod["metadata"] |= {"uid": name, "namespace": "hub"}
        given = pod["spec"]["containers"][0]["resources"]
        given["requests"] = {**given["limits"], **given.get("requests", {})}  # as the API server stores it
        answers[name] = json.loads(desk.filter(filter_body(pod, ["node-1"])).body)["NodeNames"] or []
    assert answers == {"2 GiB of the card": ["node-1"], "5 GiB of the card": []}


@dataclass
class HubDouble:
    """The part of the hub's API that the culler calls, and Prometheus' answer, on one port."""

    users: list[dict[str, Any]]
    idle: list[str]
    broken: int = 0
    """So many calls of the hub fail first."""
    stopped: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/api/v1/query":
            return await self.query(request)
        assert request.headers["Authorization"] == "token secret"
        if request.method == "DELETE":
            self.stopped.append(request.raw_path)
            return web.Response(status=204)
        assert (request.path, request.query["state"]) == ("/hub/api/users", "ready")
        if self.broken:
            self.broken -= 1
            return web.Response(status=503)
        return web.json_response(self.users)

    async def query(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers, "the hub's token is for the hub alone"
        async with self.more:
            self.asked.append(request.query["query"])
            self.more.notify_all()
        found = [{"metric": {"pod_namespace": "hub", "pod_name": name}, "value": [0, "1"]} for name in self.idle]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": found}})

    async def run(self, tmp_path: Path, *, rounds: int = 2) -> str:
        """Run the script for so many rounds; returns what it wrote."""
        output = tmp_path / "output"
        async with serving(self.answer) as url:
            hub = {"HUB": f"{url}/hub/api", "JUPYTERHUB_API_TOKEN": "secret"}
            environ = {**os.environ, **hub, "PROMETHEUS": url, "EVERY": "1"}
            with output.open("wb") as file:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, str(SCRIPT)), env=environ, stdout=file, stderr=file
                )
            try:
                async with asyncio.timeout(60), self.more:
                    await self.more.wait_for(lambda: len(self.asked) > rounds)
            finally:
                process.kill()
                await process.wait()
        return output.read_text()


def server(name: str, *, hours: float, pod: str) -> dict[str, Any]:
    started = (datetime.now(UTC) - timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    return {"name": name, "started": started, "state": {"namespace": "hub", "pod_name": pod}}


@pytest.mark.slow
async def test_a_server_whose_pod_left_its_card_idle_for_an_hour_is_stopped(tmp_path: Path) -> None:
    students = [
        {"name": "ann@example.org", "servers": {"": server("", hours=2, pod="jupyter-ann")}},
        {"name": "bob", "servers": {"thesis": server("thesis", hours=30, pod="jupyter-bob--thesis")}},
        {"name": "busy", "servers": {"": server("", hours=5, pod="jupyter-busy")}},
        {"name": "young", "servers": {"": server("", hours=0.5, pod="jupyter-young")}},
        {"name": "none", "servers": {}},
    ]
    hub = HubDouble(students, idle=["jupyter-ann", "jupyter-bob--thesis", "jupyter-young", "another-pod"])
    said = await hub.run(tmp_path, rounds=1)
    expected = ["/hub/api/users/ann%40example.org/server", "/hub/api/users/bob/servers/thesis"]
    assert hub.stopped[:2] == expected, said
    assert set(hub.stopped) == set(expected)
    assert "stops bob thesis" in said


@pytest.mark.slow
async def test_a_hub_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    students = [{"name": "ann", "servers": {"": server("", hours=2, pod="jupyter-ann")}}]
    hub = HubDouble(students, idle=["jupyter-ann"], broken=1)
    assert (await hub.run(tmp_path)).startswith("tries again: <HTTPError 503")
    assert hub.stopped


@needs_promtool
def test_the_query_names_pods_whose_card_was_idle_where_use_is_measured(tmp_path: Path) -> None:
    """Two hours by the minute: pods that computed, that are young and whose use is not measured are left out."""
    scope = runpy.run_path(str(SCRIPT))

    def series(name: str, values: str, node: str = "node-1", **labels: str) -> dict[str, str]:
        shown = ",".join(f'{key}="{value}"' for key, value in {"node": node, "card": "0", **labels}.items())
        return {"series": f"{name}{{{shown}}}", "values": values}

    def of_pod(name: str, pod: str, values: str, node: str = "node-1") -> dict[str, str]:
        return series(name, values, node, pod_namespace="hub", pod_name=pod)

    granted, used = "gcushare_pod_granted_bytes", "gcushare_pod_utilization_percent"
    measured = [series("gcushare_card_memory_unattributed_bytes", "0x120")]  # As where the driver counts.
    pods = [
        *(of_pod(granted, "idle", "5x120"), of_pod(used, "idle", "0x120")),
        *(of_pod(granted, "never-started", "5x120"), of_pod(used, "never-started", "0x120")),
        *(of_pod(granted, "earlier", "5x120"), of_pod(used, "earlier", "90x30 0x90")),
        *(of_pod(granted, "computes", "5x120"), of_pod(used, "computes", "0x100 90x1 0x19")),
        *(of_pod(granted, "young", "_x90 5x30"), of_pod(used, "young", "_x90 0x30")),
        of_pod(granted, "unmeasured", "5x120"),
    ]
    expected = [
        {"labels": f'{{pod_namespace="hub", pod_name="{name}"}}', "value": 0}
        for name in ("earlier", "idle", "never-started")
    ]
    test = {
        "interval": "1m",
        "input_series": measured + pods,
        "promql_expr_test": [{"expr": scope["QUERY"], "eval_time": "2h", "exp_samples": expected}],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    assert run_promtool("test", file) == ""
