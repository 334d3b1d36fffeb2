"""The MPS daemon as its container runs it, with a stand-in for NVIDIA's program on PATH."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gcushare.node.mps.state import CONTROL, PIPE_VARIABLE, MpsDaemon, MpsFolders
from tests.e2e.waiting import until

FAKE = Path(__file__).parents[1] / "native" / "fake_mps_control.py"


def install_fake(folder: Path) -> str:
    """Put the stand-in into a folder under NVIDIA's name; returns a PATH that finds it."""
    program = folder / CONTROL
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {FAKE} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


class MpsRig:
    """``start`` and ``kill`` are what becomes of the container; ``folders`` are what plugin and pods share with it."""

    def __init__(self, root: Path) -> None:
        self.folders = MpsFolders(root / "mps")
        self.log = self.folders.root / "log"
        self.daemon = MpsDaemon(self.folders)
        for folder in (self.folders.pipe, self.log):  # the kubelet makes them
            folder.mkdir(parents=True)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the container, and wait until the daemon answers."""
        variables = {PIPE_VARIABLE: str(self.folders.pipe), "CUDA_MPS_LOG_DIRECTORY": str(self.log)}
        self._process = await asyncio.create_subprocess_exec(
            CONTROL, "-f", "-multiuser-server", env={**os.environ, **variables}
        )
        await until(self.daemon.find_problem, "the daemon answers", deadline_s=30)

    async def kill(self) -> None:
        """Kill the daemon, as the kernel does when memory runs out; what it made in the folders stays."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def hang(self) -> None:
        """Have the daemon answer nothing any more."""
        (self.folders.root / "hang").touch()


@asynccontextmanager
async def mps_rig() -> AsyncIterator[MpsRig]:
    """A short path: addresses of sockets have a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="mps-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", install_fake(Path(folder)))
        rig = MpsRig(Path(folder))
        try:
            yield rig
        finally:
            if rig._process is not None:
                await rig.kill()
