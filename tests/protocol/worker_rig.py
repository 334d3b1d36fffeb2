"""A worker process with a fake vendor's library, and a clock of the test's for its pauses."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gcushare.cards.worker.client import IsolatedSource
from gcushare.cards.worker.time_limits import IsolationSettings
from tests.manual_clock import ManualClock
from tests.native.libraries import FakeKind, FakeLibrary, install_fake, isolated

SETTINGS = IsolationSettings(call_timeout_s=60.0)


@asynccontextmanager
async def worker(
    folder: Path, *rules: str, kind: FakeKind = "efml", settings: IsolationSettings = SETTINGS
) -> AsyncIterator[tuple[FakeLibrary, IsolatedSource, ManualClock]]:
    """A library that follows these rules, and a source of it for which no time passes but by its clock."""
    fake, clock = install_fake(kind, folder, *rules), ManualClock()
    async with isolated(fake, settings, clock) as source:
        yield fake, source, clock


async def wait_for_end(pid: int) -> None:
    """Wait until a process, ours or not, is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        assert await asyncio.to_thread(poller.poll, 20_000), f"process {pid} is still there"
    finally:
        os.close(descriptor)
