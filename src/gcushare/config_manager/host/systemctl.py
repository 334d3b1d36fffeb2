"""Have systemd read its units again and restart the scheduler's."""

from __future__ import annotations

import asyncio
import posixpath
from typing import Protocol

from gcushare.core.errors import GcushareError


class Systemd(Protocol):
    """The host's service manager; the tests have one that restarts a double of the scheduler."""

    async def reload(self) -> None:
        """Read the units again. Raises ``GcushareError`` if that fails."""

    async def restart(self, unit: str) -> None:
        """Restart the unit in file ``unit``. Raises ``GcushareError`` if that fails."""


class Systemctl:
    """systemd, through its command ``systemctl``."""

    async def reload(self) -> None:
        await self._run("daemon-reload")

    async def restart(self, unit: str) -> None:
        await self._run("restart", posixpath.basename(unit))

    async def _run(self, *arguments: str) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                "systemctl", *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise GcushareError(f"systemctl cannot be started: {error}; restart the scheduler by hand") from error
        _, errors = await process.communicate()
        if process.returncode != 0:
            reason = errors.decode(errors="replace").strip()[:500]
            raise GcushareError(f"systemctl {' '.join(arguments)} ended with {process.returncode}: {reason}")
