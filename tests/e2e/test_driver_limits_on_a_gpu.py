"""On a machine with an NVIDIA card and driver 615 or newer: the driver holds the processes of a group to its limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.nvidia.nvml import NvmlLibrary
from gcushare.core.errors import DeviceError
from tests.e2e.test_mps_on_a_gpu import MIB, OUT_OF_MEMORY, Client, card_of, client, open_library

ROOT = Path("/sys/fs/cgroup")
GRANT_MIB = 4096


def why_not() -> str:
    """Why limits cannot be tried here; "" if they can."""
    if not (ROOT / "cgroup.controllers").exists():
        return "this machine has no control groups of version 2 at /sys/fs/cgroup"
    if os.geteuid() != 0:
        return "limits are set by root alone"
    try:
        library = open_library()
    except DeviceError as error:
        return f"no NVIDIA card: {error}"
    try:
        library.group_memory(0, str(ROOT / "init.scope"))
    except LibraryCallError as error:
        return str(error)
    finally:
        library.close()
    return ""


REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=f"run this with driver 615 or newer, nothing else on it: {REASON}")


@pytest.fixture
def library() -> Iterator[NvmlLibrary]:
    found = open_library()
    yield found
    found.close()


@contextlib.contextmanager
def group(parent: Path = ROOT) -> Iterator[Path]:
    """A control group, with the controller dmem turned on above it where the kernel has it."""
    if "dmem" in (parent / "cgroup.controllers").read_text().split():
        (parent / "cgroup.subtree_control").write_text("+dmem")
    made = parent / f"gcushare-test-{uuid.uuid4().hex[:8]}"
    made.mkdir()
    try:
        yield made
    finally:
        made.rmdir()


@contextlib.asynccontextmanager
async def client_in(folder: Path) -> AsyncIterator[Client]:
    """A process in a group; it has no context before it is in it."""
    before = next(line for line in Path("/proc/self/cgroup").read_text().split("\n") if line.startswith("0::"))
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    try:
        async with client({}) as found:
            (ROOT / before[3:].lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
            yield found
    finally:
        (ROOT / before[3:].lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
        await asyncio.sleep(0.5)  # a group with a process cannot be removed


async def fill(found: Client, most_mib: int) -> int:
    """Allocate in steps until the driver refuses; returns the MiB that were given."""
    given = 0
    while given < most_mib:
        code = await found.allocate(256)
        if code == OUT_OF_MEMORY:
            return given
        assert code == 0, code
        given += 256
    return given


async def test_all_processes_of_a_pod_share_its_limit_and_its_neighbour_has_its_own(library: NvmlLibrary) -> None:
    card = card_of(library)
    with group() as one, group() as other:
        for each in (one, other):
            library.limit_group(0, str(each), GRANT_MIB * MIB)
        async with client_in(one) as first, client_in(one) as second, client_in(other) as neighbour:
            given = await fill(first, card.memory_bytes // MIB)
            assert 0 < given < GRANT_MIB, "the context counts too"
            assert await second.allocate(1024) == OUT_OF_MEMORY
            assert await neighbour.allocate(1024) == 0
            read = library.group_memory(0, str(one))
            assert read is not None
            assert given * MIB <= read.used_bytes <= GRANT_MIB * MIB


async def test_a_program_sees_its_limit_and_managed_memory_is_not_counted(library: NvmlLibrary) -> None:
    with group() as pod:
        library.limit_group(0, str(pod), GRANT_MIB * MIB)
        async with client_in(pod) as process:
            free, total = map(int, (await process.ask("info")).split())
            assert total == GRANT_MIB
            assert 0 < free < GRANT_MIB
            before = library.group_memory(0, str(pod))
            assert await process.ask(f"managed {GRANT_MIB}") == "0"
            assert library.group_memory(0, str(pod)) == before
            assert await process.allocate(GRANT_MIB) == OUT_OF_MEMORY


async def test_a_burst_is_taken_back(library: NvmlLibrary) -> None:
    with group() as pod:
        library.limit_group(0, str(pod), 2 * GRANT_MIB * MIB)
        async with client_in(pod) as process:
            assert await process.allocate(GRANT_MIB + 512) == 0
            with pytest.raises(LibraryCallError):
                library.limit_group(0, str(pod), GRANT_MIB * MIB)
            read = library.group_memory(0, str(pod))
            assert read is not None
            library.limit_group(0, str(pod), read.used_bytes)
            assert await process.allocate(512) == OUT_OF_MEMORY
        library.limit_group(0, str(pod), GRANT_MIB * MIB)
