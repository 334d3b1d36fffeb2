"""An admin's ``apply`` that is interrupted, or whose output is no longer read, leaves nothing half done."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.protocol.config_manager_node import ProcessNode, process_node, until

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
