"""The playground's child processes: readiness, deadlines, ends, and that nothing outlives its parent."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from gcushare_playground.processes import Child, Command, ProcessError, capture, stop_all

READY = re.compile(r"^ready (\S+)$")


def child(tmp_path: Path, code: str) -> Child:
    return Child(Command(name="child", arguments=(sys.executable, "-c", code), log_dir=tmp_path, ready=READY))


async def wait_gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                return
            await asyncio.sleep(0.02)


async def test_start_returns_what_the_ready_line_carries_and_the_log_keeps_every_line(tmp_path: Path) -> None:
    running = child(tmp_path, "print('hello'); print('ready here'); input()")
    assert await running.start() == "here"
    assert await running.wait() == 1, "its input is closed, so input() fails"
    assert running.log_file.read_text().startswith("hello\nready here\n")


async def test_one_that_ends_early_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=r"(?s)child ended with code 3 before it was ready.*no luck"):
        await child(tmp_path, "print('no luck'); raise SystemExit(3)").start()


async def test_one_that_never_gets_ready_is_reported_and_can_still_be_ended(tmp_path: Path) -> None:
    slow = child(tmp_path, "import time; print('busy'); time.sleep(60)")
    with pytest.raises(ProcessError, match=r"(?s)not ready within 0.5s.*busy"):
        await slow.start(deadline_s=0.5)
    assert await slow.stop() == -signal.SIGTERM


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready x'); time.sleep(60)"
    stubborn = child(tmp_path, code)
    await stubborn.start()
    assert await stubborn.stop(grace_s=0.2) == -signal.SIGKILL
    assert await stubborn.stop() == -signal.SIGKILL, "stopping again changes nothing"


async def test_children_are_out_of_reach_of_the_terminals_ctrl_c(tmp_path: Path) -> None:
    running = child(tmp_path, "import time; print('ready x'); time.sleep(60)")
    await running.start()
    assert os.getsid(running.pid) != os.getsid(0)
    await stop_all([running])
    assert not running.is_running


async def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio, re, sys
from pathlib import Path
from gcushare_playground.processes import Child, Command

async def main():
    words = (sys.executable, "-c", "import time; print('ready x'); time.sleep(60)")
    folder = Path({str(tmp_path)!r})
    inner = Child(Command(name="inner", arguments=words, log_dir=folder, ready=re.compile("ready (x)")))
    await inner.start()
    print("ready", inner.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    parent = child(tmp_path, code)
    inner_pid = int(await parent.start())
    await parent.kill()
    await wait_gone(inner_pid)


async def test_a_command_is_captured_and_its_failure_told() -> None:
    assert await capture(sys.executable, "-c", "print('out')") == "out\n"
    with pytest.raises(ProcessError, match=r"(?s)ended with code 4: .*why"):
        await capture(sys.executable, "-c", "import sys; sys.stderr.write('why'); sys.exit(4)")
    with pytest.raises(ProcessError, match=r"did not end within 0.2s"):
        await capture(sys.executable, "-c", "import time; time.sleep(60)", deadline_s=0.2)
