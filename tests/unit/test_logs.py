"""Logs: one record is one line, in the manual's form, on stderr and in a bounded file."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gcushare.core.log_fields import escape, fields, quote
from gcushare.runtime.log_directory import main, prepare
from gcushare.runtime.logs import setup_logging
from gcushare.runtime.safe_directory import UnsafePathError
from gcushare.runtime.settings.log import LogFormat, LogLevel, LogSettings
from tests.limits import small_files

log = logging.getLogger("example-program")


@contextmanager
def logging_to(folder: Path, **changes: object) -> Iterator[io.StringIO]:
    """Log into a folder and to the stream that is given."""
    stderr = io.StringIO()
    settings = LogSettings(log_dir=folder, **changes)  # type: ignore[arg-type]  # a test's shorthand
    with setup_logging(settings, "example", stderr=stderr):
        yield stderr


def write_lines(folder: Path, *messages: object, **changes: object) -> str:
    with logging_to(folder, **changes) as stderr:
        for message in messages:
            log.info("%s", message)
    return stderr.getvalue()


def test_a_line_names_time_level_place_and_facts_as_the_manual_shows(tmp_path: Path) -> None:
    (line,) = write_lines(tmp_path, fields(pod="ns/name", node="n1", card=0)).splitlines()

    pattern = r"\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2} INFO unit/test_logs\.py:\d+ pod=ns/name node=n1 card=0"
    assert re.fullmatch(pattern, line)


def test_the_local_file_is_bounded_in_size_and_count(tmp_path: Path) -> None:
    write_lines(tmp_path, *("x" * 100 for _ in range(100)), log_file_size=1000, log_file_count=2)

    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["example.log", "example.log.1", "example.log.2"]
    assert all(0 < file.stat().st_size <= 1000 for file in files)


def test_a_directory_is_relative_to_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("logs"), "one")
    assert [file.name for file in (tmp_path / "logs").iterdir()] == ["example.log"]


def test_a_full_disk_is_reported_once_and_lines_go_on_to_stderr(tmp_path: Path) -> None:
    with small_files(1000):
        shown = write_lines(tmp_path, "x" * 2000, "two", "three")

    assert shown.count("cannot be written") == 1
    assert "File too large" in shown
    assert all(word in shown for word in ("xxx", "two", "three"))


def test_a_link_planted_before_a_rotation_is_never_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    folder = tmp_path / "logs"
    with logging_to(folder, log_file_size=200, log_file_count=1):
        log.info("%s", "x" * 150)
        (folder / "example.log").unlink()
        (folder / "example.log").symlink_to(victim)
        (folder / "example.log.1").symlink_to(victim)
        for _ in range(3):
            log.info("%s", "y" * 150)

    assert victim.read_text() == "precious\n"


def test_a_directory_that_a_group_can_write_gets_no_file_until_that_is_corrected(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    folder.chmod(0o2775)
    with logging_to(folder) as stderr:
        log.info("one")
        assert list(folder.iterdir()) == []
        folder.chmod(0o755)
        log.info("two")

    assert "can be written by others (mode 2775" in stderr.getvalue()
    assert "is written again, 2 lines are missing in it" in stderr.getvalue()
    assert "two" in (folder / "example.log").read_text()


def test_the_level_bounds_our_loggers_and_libraries_never_tell_debug(tmp_path: Path) -> None:
    with logging_to(tmp_path, log_level=LogLevel.DEBUG) as stderr:
        logging.getLogger("gcushare.example").debug("ours")
        logging.getLogger("some.library").debug("theirs")
    with logging_to(tmp_path, log_level=LogLevel.ERROR) as quiet:
        logging.getLogger("gcushare.example").warning("quiet")

    assert "ours" in stderr.getvalue()
    assert "theirs" not in stderr.getvalue()
    assert quiet.getvalue() == ""


def test_no_value_can_forge_a_line(tmp_path: Path) -> None:
    forged = "x\n2026/01/01 00:00:00 ERROR gcushare/kube/client.py:1 stolen"
    hostile = f"{forged}\r\x1b[2J\u2028\u202e\x85"

    shown = write_lines(tmp_path, fields(pod=hostile), hostile)

    assert len(shown.splitlines()) == 2
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\\n2026" in shown


def test_a_stack_is_indented_so_that_it_cannot_pass_for_a_line(tmp_path: Path) -> None:
    with logging_to(tmp_path) as stderr:
        try:
            raise ValueError("bad\n2026/01/01 00:00:00 ERROR forged")
        except ValueError:
            log.exception("failed")

    first, *rest = stderr.getvalue().splitlines()
    assert first.endswith(" failed")
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert "ValueError: bad" in stderr.getvalue()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain/word:1", "plain/word:1"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("line\nbreak", '"line\\nbreak"'),
        ("显存", "显存"),
        (0, "0"),
        (True, "True"),
        ("z" * 3000, "z" * 2048 + "...(+952)"),
    ],
)
def test_a_value_is_quoted_so_that_it_ends_where_it_ends(value: object, expected: str) -> None:
    assert quote(value) == expected


@pytest.mark.parametrize("char", [chr(code) for code in (*range(32), 127, 0x85, 0x200F, 0x2029, 0xD800, 0xE0001)])
def test_every_character_that_could_be_structure_is_escaped(char: str) -> None:
    assert escape(f"a{char}b").isprintable()


def test_json_lines_carry_the_facts_under_their_own_key(tmp_path: Path) -> None:
    facts = fields(pod="ns/na\nme", card=0, level="forged")
    (line,) = write_lines(tmp_path, facts, log_format=LogFormat.JSON).splitlines()

    found = json.loads(line)
    assert found["level"] == "INFO"
    assert found["fields"] == {"pod": "ns/na\nme", "card": 0, "level": "forged"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])
    assert found["place"].startswith("unit/test_logs.py:")


NAME = "gcushare-scheduler-extender"
USER = 65532 if os.geteuid() == 0 else os.geteuid()
"""Only root gives directories away; others check the rest of it."""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    made = tmp_path / "gcushare"
    made.mkdir()
    return made


def owner_and_mode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, stat.S_IMODE(status.st_mode)


def test_the_program_gets_a_directory_and_readers_find_its_log_where_they_know_it(logs: Path) -> None:
    for _ in range(2):
        prepare(logs, NAME, USER)
    assert owner_and_mode(logs) == (os.geteuid(), 0o755)
    assert owner_and_mode(logs / NAME) == (USER, 0o755)
    (logs / NAME / f"{NAME}.log").write_text("a line\n")
    assert (logs / f"{NAME}.log").read_text() == "a line\n"


def test_the_group_loses_a_directory_that_it_could_write(logs: Path) -> None:
    logs.chmod(0o2775)
    prepare(logs, NAME, USER)
    assert owner_and_mode(logs) == (os.geteuid(), 0o755)


@pytest.mark.parametrize("entry", [NAME, f"{NAME}.log"])
def test_a_planted_link_gives_nothing_away(tmp_path: Path, logs: Path, entry: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    (logs / entry).symlink_to(victim)
    if entry == NAME:
        with pytest.raises(UnsafePathError, match="symbolic link"):
            prepare(logs, NAME, USER)
    else:
        prepare(logs, NAME, USER)
        assert (logs / entry).readlink() == Path(NAME, f"{NAME}.log")
    assert owner_and_mode(victim) == (os.geteuid(), 0o700)


def test_a_second_name_of_another_file_is_not_given_away(tmp_path: Path, logs: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    (logs / f"{NAME}.log").hardlink_to(victim)
    with pytest.raises(UnsafePathError, match="in the way"):
        prepare(logs, NAME, USER)
    assert owner_and_mode(victim) == (os.geteuid(), 0o600)


def test_a_log_that_a_program_before_left_there_is_rotated_and_kept(logs: Path) -> None:
    name = f"{NAME}.log"
    (logs / name).write_text("of the Go gcushare\n")
    (logs / f"{name}.1").write_text("older\n")
    for _ in range(2):
        prepare(logs, NAME, USER)
    (logs / NAME / name).write_text("a line\n")
    texts = [(logs / each).read_text() for each in (name, f"{name}.1", f"{name}.2")]
    assert texts == ["a line\n", "of the Go gcushare\n", "older\n"]


def test_a_log_that_cannot_be_written_is_said_and_no_failure(tmp_path: Path) -> None:
    lines: list[str] = []
    assert main([str(tmp_path / "none" / "gcushare"), NAME, "65532"], lines.append) == 0
    (line,) = lines
    assert "may not be able to write its log" in line
