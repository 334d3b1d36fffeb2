"""The config manager on a control-plane node: a kubelet that runs kube-scheduler as kubeadm has it do."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import pytest_asyncio

from gcushare.config_manager.host.running_scheduler import ask_health
from tests.e2e.assets import need_binaries
from tests.e2e.control_plane import NODE, SCHEDULER, ControlPlane, ReservedPort
from tests.e2e.images import pack_program
from tests.e2e.machine import Machine
from tests.e2e.objects import card_of, node, pod
from tests.e2e.scheduling import Scheduling
from tests.e2e.waiting import until
from tests.unit.config_manager_host import corpus_text


def manifest(port: int, image: str) -> str:
    """What kubeadm writes, for a scheduler that shares its port with no other one of this machine."""
    flag = "    - --leader-elect=true\n"
    flags = f"{flag}    - --secure-port={port}\n    - --permit-port-sharing=true\n"
    text = corpus_text("kubeadm-1.36.yaml").decode().replace("10259", str(port)).replace(flag, flags)
    return text.replace("registry.k8s.io/kube-scheduler:v1.36.2", image)


@pytest_asyncio.fixture(loop_scope="module")
async def scheduler_port(control_plane: ControlPlane) -> AsyncIterator[int]:
    """Run kube-scheduler as a static pod of a kubelet; returns the port on which it tells its health."""
    binary = need_binaries("kube-scheduler")["kube-scheduler"]
    async with AsyncExitStack() as stack:
        port = stack.enter_context(closing(ReservedPort()))
        machine = await stack.enter_async_context(Machine(control_plane))
        stack.callback(_remove_files, machine.etc / "manifests")
        image = f"registry.k8s.io/kube-scheduler:{await control_plane.client.version()}"
        copied = control_plane.root / "kube-scheduler"
        await asyncio.to_thread(shutil.copyfile, binary, copied)
        await machine.import_image(await asyncio.to_thread(pack_program, copied, image))
        shutil.copyfile(control_plane.kubeconfig_of(SCHEDULER), machine.etc / "scheduler.conf")
        proc = control_plane.root / "host" / "proc"
        proc.symlink_to("/proc")
        stack.callback(proc.unlink)
        (machine.etc / "manifests" / "kube-scheduler.yaml").write_text(manifest(port.number, image))
        await until_healthy(port.number)
        yield port.number


def _remove_files(folder: Path) -> None:
    for file in folder.glob("*"):
        file.unlink()


@pytest.mark.parametrize("directory", ["/etc/kubernetes", "/etc/kubernetes/gcushare"])
async def test_a_static_scheduler_is_configured_uses_the_extender_and_is_put_back(
    control_plane: ControlPlane, scheduler_port: int, directory: str
) -> None:
    host = control_plane.root / "host"
    etc = host / "etc" / "kubernetes"
    files = host / directory[1:]
    files.mkdir(exist_ok=True)
    before = {path.name: path.read_bytes() for path in _files(etc)}
    async with Scheduling(control_plane) as scheduling:
        await scheduling.create_nodes([node("cards", 16, 16)])
        await scheduling.start_extender()
        words = (f"--files-dir={directory}", f"--extender-url={scheduling.extender_url}")
        lines = await manage(control_plane, "apply", *words)
        assert lines[-1].startswith("modify kube-scheduler config finish")
        assert before["kube-scheduler.yaml"] == (files / "kube-scheduler.back.yaml").read_bytes()
        await scheduling.create_pods([pod("shared", 12), pod("second", 12)])
        await scheduling.until_bound("shared", "second", deadline_s=180)
        assert {card_of(scheduling.pod(name)) for name in ("shared", "second")} == {(0,), (1,)}

        lines = await manage(control_plane, "recover")
        assert lines[-1].startswith("delete all scheduler config file success")
        assert {path.name: path.read_bytes() for path in _files(etc)} == before
        await until_healthy(scheduler_port)
        await scheduling.extender.kill()
        await scheduling.create_pods([pod("unshared", 4)])
        await scheduling.until_bound("unshared", deadline_s=180)
        assert card_of(scheduling.pod("unshared")) is None, "the scheduler still calls the extender"


async def manage(control_plane: ControlPlane, command: str, *arguments: str) -> list[str]:
    """Run a command of the config manager on the node; its lines."""
    words = (sys.executable, "-m", "gcushare.config_manager", command, *arguments)
    process = await asyncio.create_subprocess_exec(
        *words,
        *(f"--host-root={control_plane.root / 'host'}", "--wait-timeout=120s"),
        *(f"--kubeconfig={control_plane.kubeconfig}", f"--node-name={NODE}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, f"{command}: {out.decode()}\n{error.decode()}\n{control_plane.describe()}"
    return out.decode().splitlines()


async def until_healthy(port: int) -> None:
    """Wait until the static pod's scheduler says that it is well."""
    url = f"https://127.0.0.1:{port}/healthz"
    await until(lambda: ask_health(url), "kube-scheduler is well", deadline_s=180.0)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
