"""Directories to write in: no one else may say where a file goes, by a directory, a link or a second name."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare.runtime.safe_directory import Attributes, UnsafePathError, open_directory

STRANGER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: run as root")


def append(directory: Path, name: str, content: bytes = b"line\n", *, root: Path = Path("/")) -> None:
    with open_directory(directory, root=root) as opened:
        descriptor = opened.open_to_append(name)
        os.write(descriptor, content)
        os.close(descriptor)


def write(directory: Path, name: str, content: bytes = b"new\n", *, root: Path = Path("/")) -> None:
    with open_directory(directory, root=root) as opened:
        opened.write(name, content, Attributes(0o640), f".{name}.tmp")


WAYS = [pytest.param(append, id="append"), pytest.param(write, id="write")]
Way = Callable[[Path, str], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "folder"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("where", "mode"),
    [*(("folder", mode) for mode in (0o775, 0o757, 0o2775, 0o1777)), ("above", 0o775)],
    ids=lambda value: value if isinstance(value, str) else oct(value),
)
def test_nothing_is_written_in_or_below_a_directory_that_others_can_write(
    folder: Path, way: Way, where: str, mode: int
) -> None:
    (folder if where == "folder" else folder.parent).chmod(mode)
    with pytest.raises(UnsafePathError, match=f"{where}' can be written by others \\(mode {mode:04o}.*chmod go-w"):
        way(folder, "f")
    assert list(folder.iterdir()) == []


def test_a_directory_with_the_sticky_bit_may_stand_on_the_way(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    append(folder, "f")
    assert (folder / "f").read_bytes() == b"line\n"


@needs_root
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whose", ["itself", "above"])
def test_nothing_is_written_in_or_below_a_strangers_directory(folder: Path, way: Way, whose: str) -> None:
    os.chown(folder if whose == "itself" else folder.parent, STRANGER, -1)
    with pytest.raises(UnsafePathError, match=f"belongs to uid {STRANGER}, expected is root"):
        way(folder, "f")
    assert list(folder.iterdir()) == []


@needs_root
def test_a_strangers_link_in_a_directory_with_the_sticky_bit_is_not_followed(tmp_path: Path, folder: Path) -> None:
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o1777)
    (public / "logs").symlink_to(folder)
    append(public / "logs", "f")
    os.chown(public / "logs", STRANGER, -1, follow_symlinks=False)
    with pytest.raises(UnsafePathError, match="symbolic link that belongs to uid"):
        append(public / "logs", "g")
    assert [path.name for path in folder.iterdir()] == ["f"]


def test_a_link_whose_target_others_can_write_leads_nowhere(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    append(tmp_path / "link", "f")
    folder.chmod(0o777)
    with pytest.raises(UnsafePathError, match="can be written by others"):
        append(tmp_path / "link", "g")
    assert [path.name for path in folder.iterdir()] == ["f"]


def test_links_are_followed_as_a_chroot_would(tmp_path: Path) -> None:
    root, outside = tmp_path / "host", tmp_path / "outside"
    (root / "var/run").mkdir(parents=True)
    outside.mkdir()
    (root / "run").symlink_to("/var/run")
    (root / "var/up").symlink_to("../../../outside")
    write(Path("/run"), "f", root=root)
    assert (root / "var/run/f").read_bytes() == b"new\n"
    with pytest.raises(FileNotFoundError):
        write(Path("/var/up"), "f", root=root)
    assert list(outside.iterdir()) == []


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        append(tmp_path / "a", "f")


def test_a_directory_exchanged_after_it_was_opened_changes_nothing(tmp_path: Path, folder: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    with open_directory(folder) as opened:
        folder.rename(tmp_path / "away")
        folder.symlink_to(victim)
        opened.write("f", b"new\n", Attributes(), ".tmp")
        os.close(opened.open_to_append("g"))
    assert list(victim.iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "away").iterdir()) == ["f", "g"]


@pytest.mark.slow
def test_a_file_is_never_appended_to_through_a_link_or_a_second_name(tmp_path: Path, folder: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (folder / "soft").symlink_to(victim)
    (folder / "nowhere").symlink_to(tmp_path / "new")
    (folder / "hard").hardlink_to(victim)
    (folder / "inner").mkdir()
    os.mkfifo(folder / "pipe")
    for name, message in {"soft": "symbolic link", "nowhere": "symbolic link", "hard": "a hard link"}.items():
        with pytest.raises(UnsafePathError, match=message):
            append(folder, name)
    for name in ("inner", "pipe"):
        with pytest.raises(OSError, match=r"Is a directory|No such device"):
            append(folder, name)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "new").exists()


def test_writing_replaces_a_link_and_not_what_it_names(tmp_path: Path, folder: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("f", ".f.tmp"):
        (folder / name).symlink_to(victim)
    write(folder, "f")
    assert (victim.read_text(), (folder / "f").read_bytes()) == ("precious", b"new\n")
    assert [path.name for path in folder.iterdir()] == ["f"]


@needs_root
def test_a_strangers_file_is_not_appended_to(folder: Path) -> None:
    (folder / "f").touch()
    os.chown(folder / "f", STRANGER, -1)
    with pytest.raises(UnsafePathError, match=f"belongs to uid {STRANGER}"):
        append(folder, "f")
    assert (folder / "f").read_bytes() == b""


def test_an_own_file_that_others_can_write_is_closed_to_them(folder: Path) -> None:
    (folder / "f").touch()
    (folder / "f").chmod(0o666)
    append(folder, "f")
    assert stat.S_IMODE((folder / "f").stat().st_mode) == 0o644


def test_missing_directories_are_made_only_if_asked_for_and_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with pytest.raises(FileNotFoundError), open_directory(tmp_path / "a/b"):
            pass
        with open_directory(tmp_path / "a/b", make=True) as opened:
            assert opened.names() == ()
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o755, 0o755]


def test_looking_needs_no_trust(folder: Path) -> None:
    (folder / "f").write_text("theirs")
    folder.chmod(0o777)
    with open_directory(folder, is_checked=False) as opened:
        assert opened.names() == ("f",)
        descriptor = opened.open_to_read("f")
    assert os.read(descriptor, 10) == b"theirs"
    os.close(descriptor)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a"])
def test_a_file_is_named_without_a_directory(folder: Path, name: str) -> None:
    with open_directory(folder) as opened, pytest.raises(ValueError, match="name of a file"):
        opened.open_to_append(name)


def test_no_descriptor_is_left_open(folder: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    append(folder, "f")
    write(folder, "g")
    folder.chmod(0o777)
    with pytest.raises(UnsafePathError):
        append(folder, "h")
    folder.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        append(folder / "none" / "deeper", "f")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
