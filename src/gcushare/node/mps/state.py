"""The MPS control daemon as the plugin sees it: its folders, whether it answers, and when it was started.

The daemon is the only process of a pod of its own, which outlives the plugin's; the kubelet starts it again, by the
chart's probe.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
"""NVIDIA's program is the daemon, and hands commands to a running one."""
HEALTH_COMMAND = b"get_default_active_thread_percentage\n"
"""A healthy daemon answers it without starting anything."""
PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
ANSWER_S = 10.0


class MpsFolders:
    """The folders below the root, which has the same path on the host, in the daemon's container and in pods."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pipe = root / "pipe"
        self.shm = root / "shm"


class MpsDaemon:
    """The daemon of these folders, which are gone after a reboot: /run is."""

    def __init__(self, folders: MpsFolders, *, timeout_s: float = ANSWER_S) -> None:
        self._folders = folders
        self._timeout_s = timeout_s

    @property
    def started_ns(self) -> int | None:
        """When it was started, in nanoseconds since the epoch; None if it left no file with its process id."""
        try:
            return (self._folders.pipe / f"{CONTROL}.pid").lstat().st_mtime_ns
        except OSError:  # not there, or a pod left something else
            return None

    async def find_problem(self) -> str:
        """Return why processes of pods cannot use the daemon; "" if it answers."""
        try:
            self._folders.shm.mkdir(parents=True, exist_ok=True)
            self._folders.shm.chmod(0o1777)  # processes of every user share memory with it
            process = await asyncio.create_subprocess_exec(
                CONTROL,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, PIPE_VARIABLE: str(self._folders.pipe)},
            )
        except OSError as error:
            return (
                f"the MPS daemon cannot be asked: {error}; the container toolkit brings {CONTROL} with the driver "
                "capability compute"
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                output, _ = await process.communicate(HEALTH_COMMAND)
        except TimeoutError:
            return f"the MPS daemon did not answer in {self._timeout_s:g}s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        answer = output[:200].decode(errors="replace").strip()
        return f"the MPS daemon does not answer: {answer or f'exit {process.returncode}'}" if process.returncode else ""
