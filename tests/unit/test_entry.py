"""The outermost frame: one line and one exit code for what ends a program, and what ``--help`` of each shows."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gcushare.core.errors import ConfigError, Refused, RetryableError
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import EXIT_STATUS, exit_code_for
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.streams import ReaderGoneError, is_reader_gone


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
    assert not is_reader_gone(ExceptionGroup("both", [ReaderGoneError("left"), ValueError("a defect")]))


IN_TASKS = """
import asyncio
from gcushare.runtime.entry import run_program
from gcushare.runtime.settings.declare import Program, settings
@settings
class Nothing:
    pass
async def write():
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(print, "x", flush=True))
        group.create_task(asyncio.to_thread(print, "y", flush=True))
return run_program(Program("p", "s", Nothing), lambda _: asyncio.run(write()), process=process)
"""
"""A program whose task group meets the closed pipe."""
TALKS = "sys.stderr.write('seen\\n'); print('x' * 9000); return 2"
_FULL = "error: the output cannot be written: No space left on device\n"


def talk(
    folder: Path, body: str, redirections: str = "", *, stdout: int = subprocess.PIPE, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """Start a command with such a body, in a shell with redirections; its input is no UTF-8."""
    (folder / "talking.py").write_text(f"import sys\ndef main(process):\n{textwrap.indent(body, '    ')}\n")
    program = "import sys\nfrom gcushare.runtime.start import start\nsys.exit(start('talking', 'main'))\n"
    words = ["/bin/sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-c", program]
    env = {**os.environ, "PYTHONPATH": str(folder), **environ}
    return subprocess.run(words, input=b"\xff", stdout=stdout, stderr=subprocess.PIPE, timeout=200, env=env)


@pytest.mark.parametrize("body", [TALKS.replace("'seen\\n'", "''"), IN_TASKS], ids=["itself", "in a task group"])
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["seen when flushed", "seen when printed"])
def test_a_reader_that_leaves_early_hears_no_complaint(tmp_path: Path, body: str, unbuffered: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = talk(tmp_path, body, stdout=write_end, PYTHONUNBUFFERED=unbuffered)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("encoding", ["gbk", "ascii"])
def test_a_character_that_the_terminal_lacks_is_substituted(encoding: str, tmp_path: Path) -> None:
    text = "a\u251c\u2588\u20ac\U0001f600\udcffz"
    body = f"print({text!a}, sys.stdin.read()); sys.stderr.write({text!a}); return 3"
    done = talk(tmp_path, body, PYTHONIOENCODING=f"{encoding}:strict")
    shown = done.stdout.decode(encoding)
    assert (done.returncode, shown[0], shown.split()[0][-2:]) == (3, "a", "?z")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("redirections", "unbuffered", "expected"),
    [
        (">/dev/full", "", (1, f"seen\n{_FULL}")),
        (">/dev/full 2>&1", "1", (1, "")),
        ("2>/dev/full", "", (2, "")),
        (">&-", "1", (2, "seen\n")),
        ("<&- >&- 2>&-", "", (2, "")),
    ],
)
def test_output_that_cannot_be_written_ends_a_command_and_messages_do_not(
    redirections: str, unbuffered: str, expected: tuple[int, str], tmp_path: Path
) -> None:
    done = talk(tmp_path, TALKS, redirections, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr.decode()) == expected


REPOSITORY = Path(__file__).parents[2]
SCRIPTS: dict[str, str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("name", {script.split(":")[0]: name for name, script in sorted(SCRIPTS.items())}.values())
def test_ctrl_c_while_a_command_is_still_loading_ends_it_quietly(name: str, tmp_path: Path) -> None:
    """The first module of the standard library that every command loads is replaced by a Ctrl-C."""
    (tmp_path / "dataclasses.py").write_text("import signal\n\nsignal.raise_signal(signal.SIGINT)\n")
    module, function = SCRIPTS[name].split(":")
    program = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY / 'src'}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_on_windows_a_command_says_where_it_runs() -> None:
    program = "import sys\nfrom gcushare.__main__ import main\nsys.platform = 'win32'\nsys.exit(main())\n"
    done = subprocess.run([sys.executable, "-c", program, "doctor"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: this program runs on Linux and macOS; on Windows start it in WSL\n"


_COMMAND = re.compile(r"^  ([a-z][a-z-]*)  +\S", re.MULTILINE)


class Terminal(io.StringIO):
    """A terminal whose size is given by the environment."""

    def isatty(self) -> bool:
        return True


def help_of(*words: str) -> str:
    module, function = SCRIPTS[words[0]].split(":")
    main: Callable[[ProcessContext], int] = getattr(importlib.import_module(module), function)
    stdout = Terminal()
    process = ProcessContext((*words[1:], "--help"), {"COLUMNS": "80"}, stdout, io.StringIO())
    assert main(process) == 0
    return stdout.getvalue()


def _every_command() -> Iterator[tuple[str, ...]]:
    for name in sorted(SCRIPTS):
        yield (name,)
        _, heading, rest = help_of(name).partition("\nCommands:\n")
        for word in _COMMAND.findall(rest.split("\n\n", 1)[0]) if heading else ():
            yield (name, word)


EVERY = list(_every_command())


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_a_page_fits_80_columns(words: tuple[str, ...]) -> None:
    page = help_of(*words)
    assert page.startswith("Usage: ")
    assert [line for line in page.splitlines() if len(line) > 80] == []
    assert [sign for sign in page if not sign.isprintable() and sign != "\n"] == []
    assert "default: empty" not in page, "what holds without the flag is said"
    assert not re.search(r"\b\d+\.0s\b", page), "durations are shown as people write them"


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_every_page_has_each_exit_status_in_one_table(words: tuple[str, ...]) -> None:
    page = help_of(*words)
    table = page.partition("\nExit status:\n")[2].partition("\n\n")[0]
    codes = re.findall(r"(?m)^  (\S+)  +[A-Z]", table)
    assert codes == sorted(codes, key=lambda code: (len(code), code))
    assert {*map(str, EXIT_STATUS)} <= {*codes}
    assert not re.search(r"(?i)exit (status|code)", page.replace("\nExit status:\n", "")), "it stands in the table"


def test_own_codes_stand_in_the_table() -> None:
    assert "  4      The worst finding is an error" in help_of("gcushare", "doctor")
    assert "  3      Moving pods makes no room" in help_of("gcushare", "defragment")
    assert "  1      One of several plugins did not answer" in help_of("gcushare", "cards")


@settings
class NoSettings:
    """Nothing."""


def test_a_long_example_is_broken_as_a_shell_reads_it() -> None:
    line = "program --a-long-flag /a/long/path/to/a/file --another-long-flag another-value --third third-value"
    stdout = io.StringIO()
    program = Program("program", "Shows.", NoSettings, examples=((line, "does it"),))
    assert run_program(program, lambda _: 0, process=ProcessContext(("--help",), {"COLUMNS": "80"}, stdout)) == 0
    shown = stdout.getvalue().partition("Examples:\n")[2].partition("      does it")[0]
    assert "\\\n" in shown
    assert shlex.split(shown.replace("\\\n", " ")) == line.split()


PEOPLE = ("gcushare", "kubectl-inspect-gcushare", "kubectl-inspect-gpushare")

HEAVY = (
    "aiohttp",
    "cryptography",
    "google.protobuf",
    "grpc",
    "prometheus_client",
    "rich",
    "ruamel",
    "uvloop",
    "gcushare.core.ledger",
    "gcushare.kube.client",
    "gcushare.wire.objects",
)
"""What a command needs once it runs, and no one who asks for help should wait for."""

_LOADED_BY_HELP = """
import importlib, io, json, sys
from gcushare.runtime.entry import ProcessContext
found = {}
for script, words in json.loads(sys.argv[1]):
    module, function = script.split(":")
    process = ProcessContext((*words, "--help"), {}, io.StringIO(), io.StringIO())
    assert getattr(importlib.import_module(module), function)(process) == 0
    found[" ".join((script, *words))] = [each for each in json.loads(sys.argv[2]) if each in sys.modules]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_help_of_commands_for_people_loads_nothing_that_only_their_work_needs() -> None:
    """In one fresh process, one command after the other."""
    people = [words for words in EVERY if words[0] in PEOPLE and words != ("gcushare", "demo")]
    asked = json.dumps([(SCRIPTS[words[0]], words[1:]) for words in people])
    program = (sys.executable, "-c", _LOADED_BY_HELP, asked, json.dumps(HEAVY))
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert len(found) >= 14
    assert not {command: modules for command, modules in found.items() if modules}
