"""Signals to a real process: its end, the order in which its tasks stop, and another log level while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gcushare.core.errors import ConfigError
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.log_level import find_programs, main
from gcushare.runtime.shutdown import RootTasks, Shutdown, root_tasks, run
from tests.protocol.runtime_bench import python

_PREAMBLE = """
import asyncio, logging, sys, time
from gcushare.runtime.shutdown import Shutdown, root_tasks, run
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
def say(word): print(word, flush=True)
"""
EACH_LOOP_AND_SIGNAL = pytest.mark.parametrize(
    ("number", "use_uvloop"),
    [(signal.SIGTERM, True), (signal.SIGINT, False)],
    ids=["SIGTERM, uvloop", "SIGINT, asyncio"],
)


def run_root_tasks(begin: Callable[[RootTasks, Shutdown], Awaitable[object]], **options: float) -> int:
    """Run a program that does nothing but begin its tasks and wait for their end; its code is 3 if all is well."""

    async def main(shutdown: Shutdown) -> int:
        async with root_tasks(shutdown, **{"drain_s": 1.0} | options) as tasks:
            await begin(tasks, shutdown)
        return 3

    return run(main)


async def run_forever() -> None:
    await asyncio.Event().wait()


async def run_until_cancelled(ended: list[str]) -> None:
    """A task in the background, which says so at its end."""
    try:
        await run_forever()
    finally:
        ended.append("background cancelled")


def wait_for_line(process: subprocess.Popen[str], expected: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == expected


def end_by_signals(program: str, number: signal.Signals, *lines: str) -> tuple[int, str, str]:
    """Send a signal at each of these lines; the program's code, and what it wrote after the last one."""
    with python("-c", _PREAMBLE + textwrap.dedent(program)) as process:
        for line in lines:
            wait_for_line(process, line)
            process.send_signal(number)
        out, err = process.communicate(timeout=20)
    return process.returncode, out, err


@EACH_LOOP_AND_SIGNAL
def test_the_first_signal_ends_the_program_in_order(number: signal.Signals, use_uvloop: bool) -> None:
    program = f"""
    async def main(shutdown):
        say("ready")
        await shutdown.wait()
        say("finished")
        return 7
    sys.exit(run(main, use_uvloop={use_uvloop}))
    """
    code, out, err = end_by_signals(program, number, "ready")

    assert (out, code) == ("finished\n", 7)
    assert f'stopping reason="signal {number.name}"' in err


@EACH_LOOP_AND_SIGNAL
def test_the_second_signal_leaves_at_once_even_when_the_event_loop_hangs(
    number: signal.Signals, use_uvloop: bool
) -> None:
    program = f"""
    async def main(shutdown):
        say("ready")
        await shutdown.wait()
        say("hanging")
        time.sleep(600)
        return 0
    sys.exit(run(main, use_uvloop={use_uvloop}))
    """
    code, _, err = end_by_signals(program, number, "ready", "hanging")

    assert code == 128 + number
    assert f"second signal {number.name}: leaving at once" in err


def test_a_signal_while_starting_is_not_lost() -> None:
    program = """
    async def main(shutdown):
        say("starting")
        while not shutdown.is_requested:
            await asyncio.sleep(0)
        async with root_tasks(shutdown, drain_s=1) as tasks:
            tasks.start("endless", asyncio.Event().wait())
        return 0
    sys.exit(run(main))
    """
    assert end_by_signals(program, signal.SIGTERM, "starting")[0] == 0


def test_the_handlers_of_before_are_restored() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: received.append(number))
    try:

        async def main(_shutdown: Shutdown) -> int:
            return 0

        assert run(main) == 0
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_failed_root_task_ends_the_program_with_its_name_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def broken() -> None:
        raise ValueError("bad card")

    async def begin(tasks: RootTasks, _shutdown: Shutdown) -> None:
        tasks.start("neighbour", run_until_cancelled(ended))
        tasks.start("watch cards", broken())

    assert run_root_tasks(begin) == 1
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert 'task="watch cards"' in record.getMessage()
    assert "ValueError: bad card" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
    assert ended == ["background cancelled"]


def test_a_root_task_that_ends_too_early_ends_the_program(caplog: pytest.LogCaptureFixture) -> None:
    async def begin(tasks: RootTasks, _shutdown: Shutdown) -> None:
        tasks.start("watch pods", asyncio.sleep(0))

    assert run_root_tasks(begin) == 1
    assert "'watch pods' ended although the program was not asked to stop" in caplog.text


def test_draining_tasks_finish_before_the_others_are_cancelled() -> None:
    order: list[str] = []

    async def draining(shutdown: Shutdown) -> None:
        await shutdown.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        order.append("drained")

    async def begin(tasks: RootTasks, shutdown: Shutdown) -> None:
        tasks.start("background", run_until_cancelled(order))
        tasks.start("draining", draining(shutdown), drains=True)
        shutdown.request("the test is over")

    assert run_root_tasks(begin, drain_s=30) == 3
    assert order == ["drained", "background cancelled"]


def test_a_drain_that_takes_too_long_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def begin(tasks: RootTasks, shutdown: Shutdown) -> None:
        tasks.start("serve", run_forever(), drains=True)
        shutdown.request("the test is over")

    assert run_root_tasks(begin, drain_s=0.01) == 3
    assert "drain deadline passed tasks=serve drain_s=0.01" in caplog.text


def test_a_task_whose_cancellation_was_swallowed_is_cancelled_again_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async def swallow() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await run_forever()
        await run_forever()

    async def begin(tasks: RootTasks, shutdown: Shutdown) -> None:
        tasks.start("stubborn", swallow())
        await asyncio.sleep(0)
        shutdown.request("test")

    assert run_root_tasks(begin, patience_s=0.01) == 3
    assert "cancelling again what did not end tasks=stubborn" in caplog.text


def test_a_program_that_does_not_stop_is_cancelled_at_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    async def main(shutdown: Shutdown) -> int:
        shutdown.request("the test is over")
        await run_forever()
        return 0

    assert run(main, deadline_s=0.01) == 1
    assert "stop deadline passed, cancelling deadline_s=0.01 tasks=main" in caplog.text


def test_a_failure_while_stopping_late_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def main(shutdown: Shutdown) -> int:
        shutdown.request("the test is over")
        try:
            await run_forever()
        finally:
            raise OSError("disk gone")

    assert run(main, deadline_s=0.01) == 1
    assert "program failed while stopping" in caplog.text
    assert "disk gone" in caplog.text


def test_other_errors_of_the_program_are_left_to_its_caller() -> None:
    async def main(_shutdown: Shutdown) -> int:
        raise ConfigError("no such node")

    with pytest.raises(ConfigError, match="no such node"):
        run(main)


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
    process.stdin.write("\n")
    process.stdin.flush()
    wait_for_line(process, "written")


@pytest.mark.parametrize(("level", "loop"), [("INFO", "uvloop"), ("ERROR", "asyncio")])
def test_a_running_program_writes_debug_lines_and_what_it_was_told_again(level: str, loop: str) -> None:
    said: list[str] = []
    with python("-c", PROGRAM, level, loop) as process:
        wait_for_line(process, "ready")
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


def test_signals_are_the_programs_until_its_loop_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own handler would interrupt what ends threads: a second Ctrl-C left a process that did not end."""
    before, handlers = signal.getsignal(signal.SIGINT), list[object]()

    class Loop(asyncio.SelectorEventLoop):
        def close(self) -> None:
            handlers.append(signal.getsignal(signal.SIGINT))
            super().close()

    async def ends(_shutdown: Shutdown) -> int:
        return 3

    monkeypatch.setattr(asyncio.events, "new_event_loop", Loop)
    assert run(ends, use_uvloop=False) == 3
    assert before not in handlers
    assert signal.getsignal(signal.SIGINT) is before
