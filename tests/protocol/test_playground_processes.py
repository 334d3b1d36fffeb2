"""The playground's child processes: readiness, deadlines, ends, and that nothing outlives its parent."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from gcushare_playground.processes import Child, Command, capture

READY = re.compile(r"^ready (\S+)$")


def child(tmp_path: Path, code: str) -> Child:
    return Child(Command(name="child", arguments=(sys.executable, "-c", code), log_dir=tmp_path, ready=READY))


async def wait_gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("level", "kept"), [("debug", "debug"), ("error", "")])
async def test_a_child_has_no_setting_of_the_person_at_the_keyboard_but_a_log_level_that_shows_it_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, kept: str
) -> None:
    monkeypatch.setenv("GCUSHARE_LOG_LEVEL", level)
    for name in ("GCUSHARE_CARD_COUNT", "GCUSHARE_LOG_FORMAT", "GCUSHARE_ANYTHING"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("PYTHONIOENCODING", "gbk")
    code = "import os; print('ready', '\u20ac' + ','.join(v for k, v in os.environ.items() if k[:8] == 'GCUSHARE'))"
    inner = child(tmp_path, code)
    assert await inner.start() == f"\u20ac{kept}"
    await inner.wait()
    assert await capture(*inner.command.arguments) == f"ready \u20ac{kept}\n"


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
