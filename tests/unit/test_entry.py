"""The outermost frame: what ends a program becomes one line and one exit code."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare.core.errors import (
    ConfigError,
    ConflictError,
    DeviceError,
    ForbiddenError,
    NotFoundError,
    Refused,
    RemoteContractError,
    RetryableError,
)
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import EXIT_STATUS, exit_code_for
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.log import LogSettings


@settings
class EntrySettings:
    """Entry."""

    count: int = setting(parsers.integer(0, 9), default=3, help="A number.")
    log: LogSettings = group(LogSettings, log_dir=None)


PROGRAM = Program("gcushare-entry", "Ends.", EntrySettings)


def run_main(main: Callable[[EntrySettings], int], *argv: str, with_log: bool = False) -> tuple[int, str, str]:
    process = ProcessContext(argv, {}, io.StringIO(), io.StringIO())
    find_log: Callable[[EntrySettings], LogSettings] | None = (lambda found: found.log) if with_log else None
    code = run_program(PROGRAM, main, log_settings=find_log, process=process)
    assert isinstance(process.stdout, io.StringIO)
    assert isinstance(process.stderr, io.StringIO)
    return code, process.stdout.getvalue(), process.stderr.getvalue()


def fail_with(error: BaseException) -> Callable[[EntrySettings], int]:
    def main(_settings: EntrySettings) -> int:
        raise error

    return main


@pytest.mark.parametrize("argv", ["--help", "--version", "--print-config"])
def test_questions_are_answered_on_stdout_without_running_the_program(argv: str) -> None:
    code, out, err = run_main(fail_with(AssertionError("must not run")), argv)

    assert (code, err) == (0, "")
    assert out.strip()


def test_each_problem_of_the_settings_is_one_line_and_the_code_is_two() -> None:
    code, out, err = run_main(fail_with(AssertionError("must not run")), "--count=x", "--log-level=y")

    assert (code, out) == (2, "")
    assert [line.split(";")[0] for line in err.splitlines()] == [
        "error: flag --count: 'x' is not a whole number",
        "error: flag --log-level: 'y' is not one of the accepted words",
    ]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("a", "b"), 2),
        (Refused("full"), 1),
        (NotFoundError("no node"), 1),
        (ConflictError("changed"), 1),
        (ForbiddenError("no right"), 1),
        (DeviceError("card gone"), 1),
        (RemoteContractError("bad id"), 1),
        (RetryableError("API server away"), 75),
        (ValueError("a defect"), 70),
    ],
)
def test_each_family_of_errors_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code_for(error) == code
    assert code in EXIT_STATUS
    assert run_main(fail_with(error))[0] == code


def test_with_a_log_the_error_is_in_the_log_once() -> None:
    code, _, err = run_main(fail_with(Refused("no room")), with_log=True)

    assert code == 1
    assert err.count("no room") == 1
    assert " ERROR gcushare/runtime/entry.py:" in err
    assert 'program ends error="no room" code=1' in err


def test_a_library_that_only_servers_need_is_named_with_how_to_install_it() -> None:
    code, _, err = run_main(fail_with(ModuleNotFoundError("No module named 'grpc'", name="grpc")))
    assert (code, err.count("\n")) == (2, 1)
    assert "the library grpc is not installed" in err
    assert "pip install 'gcushare[server]'" in err
    assert run_main(fail_with(ModuleNotFoundError("No module", name="gcushare.gone")))[0] == 70


def test_an_interrupt_is_no_defect() -> None:
    assert run_main(fail_with(KeyboardInterrupt())) == (130, "", "")


def test_a_broken_pipe_of_a_peer_is_an_error_like_any_other() -> None:
    code, _, err = run_main(fail_with(BrokenPipeError(32, "Broken pipe")))

    assert code == 70
    assert "BrokenPipeError" in err


SMALL_PROGRAM = """
import asyncio, sys
from gcushare.runtime.entry import run_program
from gcushare.runtime.settings.declare import Program, settings

@settings
class Nothing:
    \"\"\"Nothing.\"\"\"

PROGRAM = Program("small", "Ends.", Nothing)
"""
"""What a child process begins with; it loads less than this module."""


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["seen when flushed", "seen when printed"])
def test_a_reader_that_leaves_early_hears_no_complaint(unbuffered: str) -> None:
    program = f"{SMALL_PROGRAM}sys.exit(run_program(PROGRAM, lambda _: print('x' * 1000) or 0))\n"
    assert _run_without_a_reader(program, unbuffered=unbuffered) == (141, "")


def _run_without_a_reader(program: str, *argv: str, unbuffered: str = "") -> tuple[int, str]:
    """Run a program whose output goes into a pipe that no one reads; returns its exit code and what it complains of."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    words = [sys.executable, "-c", program, *argv]
    try:
        done = subprocess.run(words, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=200, env=environ)
    finally:
        os.close(write_end)
    return done.returncode, done.stderr


def test_a_reader_that_leaves_is_the_same_if_every_task_of_a_group_meets_it() -> None:
    program = (
        f"{SMALL_PROGRAM}"
        "async def write():\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        group.create_task(asyncio.to_thread(print, 'x', flush=True))\n"
        "        group.create_task(asyncio.to_thread(print, 'y', flush=True))\n"
        "    return 0\n"
        "sys.exit(run_program(PROGRAM, lambda _: asyncio.run(write())))\n"
    )
    assert _run_without_a_reader(program) == (141, "")


def test_a_group_with_another_error_is_reported_though_the_reader_has_left() -> None:
    program = (
        f"{SMALL_PROGRAM}"
        "def fail(_):\n"
        "    raise ExceptionGroup('both', [BrokenPipeError(32, 'Broken pipe'), ZeroDivisionError('oops')])\n"
        "sys.exit(run_program(PROGRAM, fail))\n"
    )
    code, reported = _run_without_a_reader(program)
    assert code == 70
    assert "ZeroDivisionError: oops" in reported


@pytest.mark.parametrize("encoding", ["gbk", "ascii"])
def test_a_character_that_the_terminal_lacks_is_substituted(encoding: str, tmp_path: Path) -> None:
    text = "a\u251c\u2588\u20ac\U0001f600\udcffz"
    body = f"print({text!a}, sys.stdin.read()); sys.stderr.write({text!a}); return 3"
    module = f"import sys\ndef main(process):\n    {body}\n"
    (tmp_path / "talking.py").write_text(module)
    program = "import sys\nfrom gcushare.runtime.start import start\nsys.exit(start('talking', 'main'))\n"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": f"{encoding}:strict"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, input=b"\xff", capture_output=True, timeout=200, env=environ)
    shown = done.stdout.decode(encoding)
    assert (done.returncode, shown[0], shown.split()[0][-2:]) == (3, "a", "?z")
    assert b"Traceback" not in done.stderr


_FULL = "the output cannot be written: No space left on device"


def _run_with(words: list[str], redirections: str, **environ: str) -> tuple[int, str]:
    """Run a command in a shell with redirections; returns its exit code and what it complains of."""
    line = ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", *words]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, timeout=200, env={**os.environ, **environ})
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirections", "unbuffered", "expected"),
    [
        (">/dev/full", "", (1, f"error: {_FULL}\n")),
        (">/dev/full 2>&1", "1", (1, "")),
        ("2>/dev/full", "", (2, "")),
        (">&-", "1", (2, "seen\n")),
        ("<&- >&- 2>&-", "", (2, "")),
    ],
)
def test_output_that_cannot_be_written_ends_a_command_and_messages_do_not(
    redirections: str, unbuffered: str, expected: tuple[int, str], tmp_path: Path
) -> None:
    body = "import sys\ndef main(process):\n    sys.stderr.write('seen\\n'); print('x' * 9000); return 2\n"
    (tmp_path / "talking.py").write_text(body)
    program = "import sys\nfrom gcushare.runtime.start import start\nsys.exit(start('talking', 'main'))\n"
    words = [sys.executable, "-c", program]
    code, said = _run_with(words, redirections, PYTHONPATH=str(tmp_path), PYTHONUNBUFFERED=unbuffered)
    assert (code, said.replace("seen\n", "", redirections == ">/dev/full")) == expected


def test_a_file_that_may_not_grow_is_named_as_one(tmp_path: Path) -> None:
    program = "import sys, resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
    program += "from gcushare.__main__ import main\nsys.exit(main())\n"
    words = [sys.executable, "-c", program, "--help"]
    code, said = _run_with(words, f">{tmp_path / 'out'}", PYTHONDONTWRITEBYTECODE="1")
    assert (code, said) == (1, "error: the output cannot be written: File too large\n")


SCRIPTS: dict[str, str] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
    "scripts"
]


@pytest.mark.parametrize("name", {script.split(":")[0]: name for name, script in sorted(SCRIPTS.items())}.values())
def test_ctrl_c_while_a_command_is_still_loading_ends_it_quietly(name: str, tmp_path: Path) -> None:
    """The first module of the standard library that every command loads is replaced by a Ctrl-C."""
    (tmp_path / "dataclasses.py").write_text("import signal\n\nsignal.raise_signal(signal.SIGINT)\n")
    module, function = SCRIPTS[name].split(":")
    program = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_on_windows_a_command_says_where_it_runs() -> None:
    program = "import sys\nfrom gcushare.__main__ import main\nsys.platform = 'win32'\nsys.exit(main())\n"
    done = subprocess.run([sys.executable, "-c", program, "doctor"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: this program runs on Linux and macOS; on Windows start it in WSL\n"
