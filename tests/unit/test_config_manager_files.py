"""The host's files: writes that are whole or not at all, links, and errors that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gcushare.config_manager.host.files import FileState, HostFileError, HostFiles
from gcushare.config_manager.host.paths_and_record import Layout, Record, parse_record
from gcushare.core.errors import ConfigError, Refused
from tests.limits import small_files

UID, GID = os.getuid(), os.getgid()


def state(content: bytes = b"new\n", mode: int = 0o640) -> FileState:
    return FileState(content, mode, UID, GID)


def test_what_is_written_is_read_back_with_mode_and_owner(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    files.write("/f", state())
    read = files.read("/f")
    assert read is not None
    assert (read.content, read.mode, read.uid, read.gid) == (b"new\n", 0o640, UID, GID)
    assert files.names("/") == ("f",)


def test_a_write_that_the_system_cuts_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    files.write("/f", state(b"old\n"))
    with small_files(1000), pytest.raises(HostFileError, match="cannot write '/f'") as caught:
        files.write("/f", state(b"x" * 5000))
    assert isinstance(caught.value.__cause__, OSError)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old\n"}


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "mounted read-only"),
        (errno.EACCES, "run as root"),
        (errno.EXDEV, "on one mount"),
    ],
)
def test_an_error_of_the_system_says_what_to_do(code: int, advice: str) -> None:
    error = HostFileError("write", "/etc/x", OSError(code, os.strerror(code)))
    assert advice in str(error)


def test_links_pipes_directories_and_huge_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    files = HostFiles(tmp_path)
    for name, message in {
        "/link": "symbolic link to 'nowhere'",
        "/pipe": "not a regular file",
        "/folder": "not a regular file",
        "/huge": "more than",
    }.items():
        with pytest.raises(Refused, match=message):
            files.read(name)


def test_a_missing_file_is_none_and_a_missing_directory_empty(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    assert files.read("/none/f") is None
    assert files.names("/none") == ()
    files.remove("/none/f")


def test_moving_replaces_in_one_step_and_needs_one_filesystem(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    (tmp_path / "a").mkdir()
    files.write("/a/f", state(b"1"))
    files.write("/g", state(b"2"))
    files.replace("/a/f", "/g")
    assert (tmp_path / "g").read_bytes() == b"1"
    assert files.names("/a") == ()


@pytest.mark.parametrize(
    ("directory", "target", "message"),
    [
        ("/etc/kubernetes/manifests", "/etc/kubernetes/manifests/kube-scheduler.yaml", "as a second scheduler"),
        ("etc", "/etc/x/y.yaml", "absolute path"),
        ("/etc", "/etc/../x.yaml", "absolute path"),
    ],
)
def test_places_where_the_backup_would_be_started_are_refused(directory: str, target: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Layout(directory, target)


RECORD = Record(
    target="/t",
    before_sha256="1",
    after_sha256=("2", "3"),
    flag="config",
    flag_was=None,
    config="/c",
    config_sha256=("4",),
    scheduler_version="v1.30.0",
    is_proven=True,
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "not a record"),
        (RECORD.encoded().replace(b'"version": 1', b'"version": 2'), r"did a newer version write it.*version"),
        (RECORD.encoded().replace(b'"flag":', b'"later": 1, "flag":'), "later"),
        (RECORD.encoded().replace(b'"/t"', b"5"), "target"),
        (RECORD.encoded().replace(b"true", b'"yes"'), "is_proven"),
    ],
)
def test_a_record_that_is_none_is_distinguished(content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_record(content, "r")
