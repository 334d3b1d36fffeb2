"""The processes of the config manager: what an interrupted change leaves, and what a log has for a bundle."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.cli.support_bundle.redact import Redactor
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.resources import NODES
from gcushare_playground.apiserver import ApiServer, ApiServerConfig, FailBefore, Fault
from tests.protocol.config_manager_node import ProcessNode, process_node, until
from tests.protocol.test_config_manager_commands import keeping, put_service

pytestmark = pytest.mark.slow


async def started(node: ProcessNode, url: str, stdout: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    arguments = (f"--host-root={node.root}", "--wait-timeout=30s", f"--extender-url={url}")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gcushare.config_manager", "apply", *arguments),
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env={},
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # these tests, too, may run under nohup
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
async def test_a_signal_while_it_waits_for_the_scheduler_puts_everything_back(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with process_node(tmp_path / "host") as node:
        before = node.manifest.read_bytes()
        # The scheduler ends on this configuration, so that the command waits.
        process = await started(node, "http://refused.example:1")
        await until(lambda: node.manifest_has(b"gcushare"), "the scheduler's file is changed")
        process.send_signal(number)
        out, err = await process.communicate()
        assert (process.returncode, b"interrupted, everything is put back" in out) == (1, True), err
        assert b"error: interrupted; rolled back, kube-scheduler is healthy again" in err
        assert node.manifest.read_bytes() == before
        assert [path.name for path in (node.root / "etc/kubernetes").iterdir()] == ["manifests"]


async def test_a_change_goes_on_to_its_end_if_nobody_reads_its_lines(tmp_path: Path) -> None:
    async with process_node(tmp_path / "host") as node:
        reading, writing = os.pipe()
        os.close(reading)
        process = await started(node, "http://10.96.1.37:32766", writing)
        os.close(writing)
        _, err = await process.communicate()
        assert (process.returncode, err) == (128 + signal.SIGPIPE, b"")
        assert await node.is_proven()


TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SECRETS = ("alice", "payroll", "swordfish", TOKEN)
MESSAGE = f'User "alice" of system:serviceaccount:payroll:runner may not: the password is swordfish, the token {TOKEN}'
FAULTS = (
    Fault(FailBefore(403, "Forbidden", MESSAGE), path="/services/", count=2),
    Fault(FailBefore(500, "InternalError", MESSAGE), path="/configmaps/", method="PATCH", count=2),
    Fault(FailBefore(422, "Invalid", MESSAGE), path="/leases", count=1),
    Fault(FailBefore(403, "Forbidden", MESSAGE), path="/pods/", count=2),
)


# Several processes one after the other.
@pytest.mark.slow
async def test_nothing_secret_of_the_config_managers_log_is_in_a_bundle(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with (
        process_node(tmp_path / "host") as node,
        ApiServer(ApiServerConfig(runs_controllers=False)) as server,
        KubeClient(KubeConfig(server=server.url, source="the test")) as client,
    ):
        await client.create(NODES, {"metadata": {"name": "cp-1"}})
        await put_service(client, "10.96.1.37")
        for fault in FAULTS:
            server.faults.on(fault)
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        with log.open("wb") as file:
            async with keeping(node, kubeconfig, "--log-level=debug", log=file.fileno()) as process:
                await until(lambda: node.config_has(b"10.96.1.37"), "the scheduler is configured after the failures")
                process.terminate()
                await asyncio.wait_for(process.wait(), 60)
    written = log.read_text()
    assert [secret for secret in SECRETS if secret not in written] == [], "the control: all of them were logged"
    kept = Redactor().text(cut_log(written, {"cp-1"}))
    assert [secret for secret in SECRETS if secret in kept] == []
    # Every line of the log is there, with what failed; what the command prints for people is not.
    assert kept.count("/config_manager/") == written.count("/config_manager/") > 0
    assert "was answered 403" in kept
