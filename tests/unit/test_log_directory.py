"""The extender's log directory on a host: its own below root's, whatever others left there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gcushare.runtime.log_directory import main, prepare
from gcushare.runtime.safe_directory import UnsafePathError

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
