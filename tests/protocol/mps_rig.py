"""The MPS daemon's container as the chart runs it, with a stand-in for NVIDIA's program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gcushare.core.errors import DeviceError
from gcushare.node.mps.daemon import run_mps_daemon
from gcushare.node.mps.state import MpsFolders, MpsStateReader
from gcushare.runtime.shutdown import Shutdown
from tests.protocol.plugin_rig import until

FAKE = Path(__file__).parents[1] / "native" / "fake_mps_control.py"
POLL_S = 0.1


def install_fake(folder: Path) -> Path:
    """Put the stand-in into a folder under NVIDIA's name."""
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


class MpsRig:
    """``start`` and ``stop`` are the container's; ``folders`` is what it shares with plugin and pods."""

    def __init__(self, root: Path) -> None:
        self.folders = MpsFolders(root / "mps")
        self.proc = root / "host-proc"
        self.proc.mkdir()
        self.program = install_fake(root)
        self._shutdown: Shutdown | None = None
        self._running: asyncio.Task[int] | None = None

    async def start(self, poll_s: float = POLL_S) -> None:
        """Start the container."""
        self._shutdown = Shutdown()
        self._running = asyncio.create_task(
            run_mps_daemon(self.folders, self.program, self._shutdown, proc_root=self.proc, poll_s=poll_s)
        )

    async def start_well(self) -> None:
        """Start the container, and wait until the daemon answers."""
        await self.start()
        await until(lambda: self.problem == "", "the daemon answers")

    @property
    def problem(self) -> str:
        """What the container says is wrong with the daemon; empty when nothing is."""
        return MpsStateReader(self.folders).read().problem

    async def stop(self) -> int:
        """End the container as the kubelet does; returns its exit code."""
        assert self._shutdown is not None
        assert self._running is not None
        self._shutdown.request("test")
        return await self._running

    async def ended(self) -> int:
        """Wait for the container to end by itself."""
        assert self._running is not None
        return await self._running

    def kill_daemon(self) -> None:
        """Kill the daemon, as the kernel does when memory runs out."""
        os.kill(int((self.folders.pipe / "nvidia-cuda-mps-control.pid").read_text()), 9)

    def start_other_daemon(self, pid: int) -> None:
        """Let another control daemon run on the machine, as far as its /proc tells."""
        folder = self.proc / str(pid)
        folder.mkdir()
        (folder / "comm").write_text("nvidia-cuda-mps\n")
        (folder / "cmdline").write_bytes(b"/usr/bin/nvidia-cuda-mps-control\0-d\0")


@asynccontextmanager
async def mps_rig() -> AsyncIterator[MpsRig]:
    """A short path: addresses of sockets have a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        rig = MpsRig(Path(folder))
        try:
            yield rig
        finally:
            if rig._shutdown is not None:
                rig._shutdown.request("end of the test")
            if rig._running is not None:
                with contextlib.suppress(DeviceError):  # the test has seen it
                    await rig._running
