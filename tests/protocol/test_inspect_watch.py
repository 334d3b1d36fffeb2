"""``--watch`` as a process: tables on a pipe, documents for programs, a live screen on a terminal, trouble reported."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from gcushare.vendors import ENFLAME
from tests.extender_objects import Document
from tests.protocol.extender_rig import until
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster

DEADLINE_S = 60.0
RUN = "import sys; from gcushare.cli.inspect.__main__ import main_gcushare; sys.exit(main_gcushare())"


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16, 16, address="10.0.0.1"), bound_pod("a", "node-1", 0, 4))
        yield found


def unreadable(name: str) -> Document:
    return a_node(name, 16, annotations={ENFLAME.inventory_annotation: '{"version": 99}'})


class Follower:
    """A watching process and what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.out = ""
        self.err = ""

    async def collect(self, stream: asyncio.StreamReader, name: str) -> None:
        while chunk := await stream.read(65536):
            setattr(self, name, getattr(self, name) + chunk.decode(errors="replace"))

    async def until(self, holds: Callable[[Follower], bool]) -> None:
        await until(lambda: holds(self) or self.process.returncode is not None, DEADLINE_S)
        assert holds(self), f"out: {self.out}\nerr: {self.err}"


@asynccontextmanager
async def following(found: Cluster, *argv: str) -> AsyncIterator[Follower]:
    """Run the command on a pipe until the block ends; it must then end as one that was interrupted."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, *argv, env={**found.environ(), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    follower = Follower(process)
    async with asyncio.TaskGroup() as group:
        group.create_task(follower.collect(process.stdout, "out"), name="standard output")
        group.create_task(follower.collect(process.stderr, "err"), name="standard error")
        try:
            yield follower
            process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 128 + signal.SIGINT, follower.err
        finally:
            if process.returncode is None:
                process.kill()


async def test_a_pipe_gets_the_table_whenever_it_changes(seen: Cluster) -> None:
    async with following(seen, "--watch") as ran:
        await ran.until(lambda it: "4/32 (12%)" in it.out)
        seen.put(bound_pod("b", "node-1", 1, 8))
        await ran.until(lambda it: "12/32 (37%)" in it.out)
        seen.delete("a")
        await ran.until(lambda it: "8/32 (25%)" in it.out)
        seen.put(a_node("node-2", 16))
        await ran.until(lambda it: "8/48 (16%)" in it.out)
        assert ran.err == ""
        seen.put(unreadable("node-3"))
        await ran.until(lambda it: it.err.startswith("warning: node node-3: the inventory annotation cannot be read"))
    tables = [table.splitlines()[1:] for table in re.split(r"(?m)^(?=\d\d:\d\d:\d\d$)", ran.out) if table]
    assert all(table != after for table, after in pairwise(tables)), "what looks the same is not printed again"
    assert ran.err.count("\n") == 1, "a problem is reported once"


@pytest.mark.slow
async def test_programs_get_one_document_per_line(seen: Cluster) -> None:
    async with following(seen, "-w", "-o", "json") as ran:
        await ran.until(lambda it: it.out.count("\n") >= 1)
        seen.put(bound_pod("b", "node-1", 1, 8))
        await ran.until(lambda it: '"allocated":12' in it.out)
    documents = [json.loads(line) for line in ran.out.splitlines()]
    assert documents[0]["cluster"]["allocated"] == 4
    assert documents[-1]["cluster"]["allocated"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("output", ["table", "json"])
async def test_a_reader_that_leaves_ends_the_command_at_once_and_quietly(seen: Cluster, output: str) -> None:
    """Nothing changes in the cluster after the reader has left: the command must not wait to write once more."""
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "--watch", "-o", output, env={**seen.environ(), "PATH": os.environ["PATH"]},
        stdout=writing, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    os.close(writing)
    try:
        assert await asyncio.to_thread(os.read, reading, 20), "something is printed"
        os.close(reading)
        _, complaint = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 128 + signal.SIGPIPE
    assert complaint == b""


@pytest.mark.slow
async def test_a_server_that_goes_away_and_comes_back_is_reported_and_followed_on(seen: Cluster) -> None:
    async with following(seen, "--watch") as ran:
        await ran.until(lambda it: "4/32 (12%)" in it.out)
        await seen.api.stop()
        await ran.until(lambda it: "warning: " in it.err and "trying again" in it.err)
        seen.put(bound_pod("b", "node-1", 1, 8))
        await seen.api.start()
        await ran.until(lambda it: "12/32 (37%)" in it.out)
        await ran.until(lambda it: "answered again" in it.err)


async def test_a_first_list_that_is_refused_is_an_error_and_not_an_endless_wait(seen: Cluster) -> None:
    await seen.api.stop()
    ran = await seen.call("--watch")
    assert (ran.code, ran.out) == (75, "")
    assert "error: GET /api/v1/" in ran.err


@pytest.mark.slow
async def test_a_terminal_gets_a_live_screen_that_is_left_as_it_was(seen: Cluster) -> None:
    leader, follower_end = pty.openpty()
    environ = {**seen.environ(), "PATH": os.environ["PATH"], "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "--watch", env=environ, stdin=follower_end, stdout=follower_end, stderr=follower_end
    )
    os.close(follower_end)
    ran = Follower(process)
    loop = asyncio.get_running_loop()
    loop.add_reader(leader, lambda: setattr(ran, "out", ran.out + _read(leader)))
    try:
        await ran.until(lambda it: "4/32 (12%)" in it.out)
        seen.put(bound_pod("b", "node-1", 1, 8))
        await ran.until(lambda it: "12/32 (37%)" in it.out)
        seen.put(unreadable("node-3"))
        await ran.until(lambda it: "warning: node node-3: the inventory annotation" in it.out)
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), DEADLINE_S)
        await ran.until(lambda it: "\x1b[?1049l" in it.out)
    finally:
        loop.remove_reader(leader)
        os.close(leader)
        if process.returncode is None:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT
    assert ran.out.index("\x1b[?1049h") < ran.out.index("\x1b[?1049l"), "the screen before is restored"


def _read(descriptor: int) -> str:
    try:
        return os.read(descriptor, 65536).decode(errors="replace")
    except OSError:  # the other end is closed: how a terminal says that everybody has left
        return ""
