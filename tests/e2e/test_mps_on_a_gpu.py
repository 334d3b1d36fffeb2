"""On a machine with an NVIDIA card: MPS holds processes to their limits, and over-use is found while MPS runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gcushare.cards.nvidia.nvml import NvmlLibrary
from gcushare.cards.pci import PciBus
from gcushare.core.assignments import PodRef
from gcushare.core.cards import Card
from gcushare.core.over_use.eviction import CardReading, Offender, When, decide
from gcushare.core.over_use.tracking import OverUseChangeKind, OverUseTracker, PolledUse
from gcushare.node.mps.limits import limits_of
from gcushare.node.mps.state import PIPE_VARIABLE, MpsDaemon, MpsFolders
from tests.builders import TOLERANCE
from tests.e2e.waiting import until

CONTROL = shutil.which("nvidia-cuda-mps-control")
CLIENT = Path(__file__).parents[1] / "native" / "cuda_client.py"
MIB, OUT_OF_MEMORY = 1 << 20, 2

pytestmark = pytest.mark.skipif(
    CONTROL is None,
    reason="run this as root on a machine with an NVIDIA card (Volta or later) whose driver brings "
    "nvidia-cuda-mps-control and libcuda.so.1, with nothing else on the card",
)


class Client:
    """A process that allocates when it is asked to."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def allocate(self, mib: int) -> int:
        """Returns CUDA's code; ``mib`` 0 asks whether the context still works."""
        return int(await self.ask(str(mib)))

    async def ask(self, words: str) -> str:
        """Write one line to the process; returns its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n".encode())
        await self.process.stdin.drain()
        return await self.line()

    async def line(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            return (await self.process.stdout.readline()).decode().strip()


@asynccontextmanager
async def client(variables: Mapping[str, str]) -> AsyncIterator[Client]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CLIENT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **variables},
    )
    try:
        found = Client(process)
        assert await found.line() == "ready"
        yield found
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def daemon() -> AsyncIterator[MpsFolders]:
    """NVIDIA's program as the chart's container runs it, and the plugin's question whether it answers."""
    assert CONTROL is not None
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        folders = MpsFolders(Path(folder))
        folders.pipe.mkdir()
        variables = {PIPE_VARIABLE: str(folders.pipe), "CUDA_MPS_LOG_DIRECTORY": folder}
        running = await asyncio.create_subprocess_exec(CONTROL, "-f", "-multiuser-server", env=os.environ | variables)
        try:
            await until(MpsDaemon(folders).find_problem, "the daemon answers")
            assert MpsDaemon(folders).started_ns is not None
            yield folders
        finally:
            running.terminate()
            await running.wait()


def open_library() -> NvmlLibrary:
    library = NvmlLibrary("", PciBus(Path("/sys/bus/pci/devices")), lambda _call: None)
    library.open()
    return library


def card_of(library: NvmlLibrary) -> Card:
    found = library.describe(0)
    assert isinstance(found, Card), found
    return found


async def test_processes_over_their_limits_fail_to_allocate_while_the_neighbour_goes_on() -> None:
    library = open_library()
    card = card_of(library)
    assert card.limit_problem == ""
    async with daemon() as folders:
        small = limits_of(folders, {card.uuid: 2048 * MIB}).variables
        large = limits_of(folders, {card.uuid: 8192 * MIB}).variables
        async with client(small) as first, client(small) as second, client(large) as neighbour:
            assert await neighbour.allocate(4096) == 0
            for greedy in (first, second):
                assert await greedy.allocate(1024) == 0
                assert await greedy.allocate(2048) == OUT_OF_MEMORY
            assert await neighbour.allocate(2048) == 0
            assert await neighbour.allocate(0) == 0
            used = library.use(0).processes or {}
            assert {first.pid, second.pid, neighbour.pid} <= used.keys()
    library.close()


async def test_over_use_of_a_process_outside_of_mps_is_found_and_its_eviction_rehearsed() -> None:
    library = open_library()
    card = card_of(library)
    async with daemon() as folders:
        granted = 2048 * MIB
        inside = limits_of(folders, {card.uuid: granted}).variables
        outside = {"CUDA_MPS_PIPE_DIRECTORY": str(folders.root / "nowhere")}
        async with client(inside) as modest, client(outside) as greedy:
            assert await modest.allocate(1024) == 0
            assert await greedy.allocate(4096) == 0
            pods = {modest.pid: "modest", greedy.pid: "greedy"}
            tracker = OverUseTracker(TOLERANCE, polls=2)
            changes = []
            use, figures = library.use(0), dict[tuple[str, int], PolledUse]()
            for poll in range(2):
                use = library.use(0)
                figures = {
                    (pods[pid], 0): PolledUse(size, granted)
                    for pid, size in (use.processes or {}).items()
                    if pid in pods
                }
                changes += tracker.take(figures, set(pods.values()), float(poll))
            assert [(change.kind, change.place) for change in changes] == [(OverUseChangeKind.BEGAN, ("greedy", 0))]
            by_pod = {uid: found for (uid, _), found in figures.items()}
            reading = CardReading(0, card.memory_bytes, use.memory_used_bytes, 0, by_pod)
            offender = Offender(PodRef("greedy", "default", "greedy"), 0, by_pod["greedy"])
            assert decide([offender], {0: reading}, When.ALWAYS).victim == offender
    library.close()
