"""The worker process of a library: what ends it, what does not, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.worker.messages import MAX_LINE_BYTES
from gcushare.cards.worker.process import WorkerProcess
from gcushare.cards.worker.time_limits import LIBRARY_PAUSES
from gcushare.core.errors import DeviceError
from tests.native.libraries import install_fake, worker
from tests.running import wait_for_end

_PIDFD_GETFD = 438  # of every architecture: asm-generic/unistd.h


def open_files() -> list[int]:
    return sorted(int(each.name) for each in Path("/proc/self/fd").iterdir())


def connection_of(pid: int) -> socket.socket:
    """The worker's end of its socket; skip the test if this process may not have it."""
    process = os.pidfd_open(pid)
    try:
        descriptor = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, 0, 0)
    finally:
        os.close(process)
    if descriptor < 0:
        pytest.skip("no descriptor of another process may be had here: run as root")
    return socket.socket(fileno=descriptor)


def write_all(connection: socket.socket, written: bytes) -> None:
    with suppress(ConnectionError):  # the reader has enough and closes
        connection.sendall(written)


def test_where_no_process_can_be_started_no_file_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = open_files()
    with pytest.raises(DeviceError, match=r"cannot be started: Resource temporarily unavailable"):
        WorkerProcess(LibrarySpec(kind="efml", library="/nonexistent"))
    assert open_files() == before


async def test_a_worker_killed_from_outside_is_replaced(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, clock):
        await source.list_cards()
        killed = source.worker_pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(DeviceError, match="SIGKILL"):
            await source.list_cards()
        clock.advance(LIBRARY_PAUSES.first_s)
        assert len((await source.list_cards()).readings) == 2
        assert source.worker_pid not in (killed, None)


# A worker process for each answer.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param(b"x" * (2 * MAX_LINE_BYTES), "chunk exceed the limit", id="no end of line"),
        pytest.param(b'{"result":"perhaps"}\n', "Expected `int`", id="another type"),
    ],
)
async def test_a_worker_that_writes_what_is_no_answer_is_replaced(tmp_path: Path, written: bytes, reason: str) -> None:
    async with worker(tmp_path) as (_, source, clock):
        await source.list_cards()
        broken = source.worker_pid
        assert broken is not None
        with connection_of(broken) as connection:
            os.kill(broken, signal.SIGSTOP)  # its own answer does not come between
            writing = asyncio.create_task(asyncio.to_thread(write_all, connection, written), name="write")
            with pytest.raises(DeviceError, match=f"with an unreadable answer.*{reason}"):
                await source.list_cards()
            await writing
        await wait_for_end(broken)
        clock.advance(LIBRARY_PAUSES.first_s)
        assert len((await source.list_cards()).readings) == 2
        assert source.worker_pid not in (broken, None)


async def test_signals_for_its_parent_do_not_end_a_worker(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, _):
        await source.list_cards()
        pid = source.worker_pid
        assert pid is not None
        for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            os.kill(pid, number)
            assert len((await source.list_cards()).readings) == 2
            assert source.worker_pid == pid


async def test_a_closed_source_leaves_no_process_and_answers_no_more(tmp_path: Path) -> None:
    async with worker(tmp_path) as (_, source, _):
        await source.list_cards()
        pid = source.worker_pid
        assert pid is not None
        await source.close()
        with pytest.raises(DeviceError, match="closed"):
            await source.list_cards()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_worker_stuck_in_a_call_dies_with_its_parent(tmp_path: Path) -> None:
    fake = install_fake("efml", tmp_path)
    script = (
        "import asyncio, sys\n"
        "from gcushare.cards.worker.client import IsolatedSource\n"
        "from gcushare.cards.libraries import LibrarySpec\n"
        "async def main():\n"
        "    source = IsolatedSource(LibrarySpec(kind='efml', library=sys.argv[1]))\n"
        "    await source.list_cards()\n"
        "    print(source.worker_pid, flush=True)\n"
        "    await source.wait_event(600.0)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script, str(fake.path)]
    parent = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await wait_for_end(worker)


@pytest.mark.slow
async def test_a_worker_is_small(tmp_path: Path) -> None:
    async with worker(tmp_path, kind="nvml") as (_, source, _):
        await source.list_cards()
        status = Path(f"/proc/{source.worker_pid}/status").read_text()
    resident_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident_kib < 48 * 1024
