"""The log level of a real process is changed while it runs, as an operator does it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.log_level import find_programs, main
from tests.protocol.runtime_bench import python

PROGRAM = """
import asyncio, logging, sys
from pathlib import Path
from gcushare.runtime.logs import setup_logging
from gcushare.runtime.settings.log import LogLevel, LogSettings
from gcushare.runtime.shutdown import run
logger = logging.getLogger("gcushare.example")

async def program(shutdown):
    print("ready", flush=True)
    for number in range(3):
        await asyncio.to_thread(sys.stdin.readline)
        logger.debug("debug line %d", number)
        logger.info("info line %d", number)
        print("written", flush=True)
    return 0

with setup_logging(LogSettings(log_dir=None, log_level=LogLevel[sys.argv[1]]), "example"):
    sys.exit(run(program, use_uvloop=sys.argv[2] == "uvloop"))
"""


def ask_for_lines(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "written\n"


@pytest.mark.parametrize(("level", "loop"), [("INFO", "uvloop"), ("ERROR", "asyncio")])
def test_a_running_program_writes_debug_lines_and_what_it_was_told_again(level: str, loop: str) -> None:
    said: list[str] = []
    with python("-c", PROGRAM, level, loop) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        ask_for_lines(process)
        assert main(["debug", str(process.pid)], said.append) == DONE
        ask_for_lines(process)
        assert main(["configured", str(process.pid)], said.append) == DONE
        ask_for_lines(process)
        _, errors = process.communicate(timeout=20)

    written = [line.split(" ", 4)[4] for line in errors.splitlines()]
    changed = [
        "log level changed level=debug",
        "debug line 1",
        "info line 1",
        f"log level changed level={level.lower()}",
    ]
    always = level == "INFO"
    assert written == [*(["info line 0"] if always else []), *changed, *(["info line 2"] if always else [])]
    assert said[0] == f"process {process.pid} now writes the lines of level debug\n"


def test_the_system_has_no_program_of_ours_in_an_empty_folder(tmp_path: Path) -> None:
    own = tmp_path / "self" / "ns"
    own.mkdir(parents=True)
    (own / "mnt").symlink_to("mnt:[1]")
    assert find_programs(tmp_path) == []
