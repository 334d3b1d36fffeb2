"""NVIDIA's control program of MPS: a command goes to its standard input, the daemon's answer comes from its output.

Source: NVIDIA's Multi-Process Service documentation, appendix on tools and interfaces.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from gcushare.core.errors import DeviceError
from gcushare.device_plugin.mps.state import MpsFolders

ANSWER_BYTES = 1 << 16
HEALTH_COMMAND = "get_default_active_thread_percentage"
"""Answered by a daemon that is well without starting anything."""


class MpsControl:
    """The program ``binary``, for the daemon of these folders."""

    def __init__(self, binary: Path, folders: MpsFolders, *, timeout_s: float = 10.0) -> None:
        self.binary = binary
        self._folders = folders
        self._timeout_s = timeout_s

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which the daemon, its servers and this program find each other."""
        return {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self._folders.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self._folders.log),
        }

    async def ask(self, command: str) -> str:
        """Send one command; returns the answer.

        Raises:
            DeviceError: the program is missing, no daemon answers in time, or it refuses.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                str(self.binary),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=self.environment,
            )
        except OSError as error:
            raise DeviceError(f"{str(self.binary)!r} cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(self._timeout_s):
                output, _ = await process.communicate(f"{command}\n".encode())
        except TimeoutError:
            raise DeviceError(f"the MPS daemon did not answer {command!r} in {self._timeout_s:g}s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        answer = output[:ANSWER_BYTES].decode(errors="replace").strip()
        if process.returncode:
            raise DeviceError(f"the MPS daemon refused {command!r}: {answer[:200] or f'exit {process.returncode}'}")
        return answer
