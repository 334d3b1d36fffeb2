"""The one way into a directory that a program writes in: no one else may be able to write there, and no link leads out.

A privileged program that opens a file by its path writes wherever someone who can change one directory of that path
lets it point. So the path is walked component by component, each opened below the one before it (``openat`` with
``O_NOFOLLOW``) and checked as what was really opened:

- every directory belongs to root or to the program's own user;
- none can be written by others; one with the sticky bit (/tmp) may stand on the way, not at the end;
- a link on the way is followed only where those who may write there made it, and as a chroot would (/var/run is one).

Files are then opened, renamed and removed by their name below that descriptor: what happens to the path afterwards
changes nothing. A file is never opened through a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gcushare.core.errors import ConfigError

_MAX_LINKS = 40
"""As the kernel's own limit on following symbolic links."""
_BY_OTHERS = 0o022
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""O_PATH, where there is one: a directory on the way need not be readable."""
_SELINUX = "security.selinux"


class UnsafePathError(ConfigError):
    """Someone else could say where a file is written, so it is not written; the message says who and what to do."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a new file gets besides its content; None leaves the owner and the SELinux label as the system sets them."""

    mode: int = 0o644
    owner: tuple[int, int] | None = None
    label: bytes | None = None


class SafeDirectory:
    """An open directory. Files in it are named by their bare name; ``path`` is only for messages."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    def open_to_read(self, name: str) -> int:
        """Open a file without waiting for a pipe's other end. Raises ``OSError`` with ELOOP for a link."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(_bare(name), flags, dir_fd=self._descriptor)

    def open_to_append(self, name: str) -> int:
        """Open a file at its end, made where there is none.

        Raises:
            UnsafePathError: it is a link, no regular file, has a second name elsewhere, or belongs to someone else.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(_bare(name), flags, 0o644, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            target = os.readlink(name, dir_fd=self._descriptor)
            raise UnsafePathError(
                f"{self.shown(name)!r} is a symbolic link to {target!r}, and files are never written through one: "
                "remove it"
            ) from error
        try:
            _check_own_file(descriptor, self.shown(name))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def holds(self, name: str, content: bytes) -> bool:
        """Whether a regular file of this name has exactly this content."""
        status = self.status(name)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != len(content):
            return False
        with os.fdopen(self.open_to_read(name), "rb") as file:
            return file.read(len(content) + 1) == content

    def write(self, name: str, content: bytes, attributes: Attributes, temporary: str) -> None:
        """Write a file atomically: write ``temporary`` in the same directory, fsync, rename, fsync of the directory.

        A link of this name is replaced, not what it names. When it fails the old file is as it was.
        """
        self.remove(temporary)
        try:
            self._write_new(temporary, content, attributes)
            self.rename(temporary, self, name)
        except BaseException:
            self.remove(temporary)
            raise

    def rename(self, name: str, target: SafeDirectory, new_name: str, *, is_lasting: bool = True) -> None:
        """Rename a file over ``new_name``; ``is_lasting`` has it survive a loss of power."""
        os.rename(_bare(name), _bare(new_name), src_dir_fd=self._descriptor, dst_dir_fd=target._descriptor)
        for changed in {target, self} if is_lasting else ():
            changed.sync()

    def remove(self, name: str) -> bool:
        """Remove a file or link; False where there was none."""
        try:
            os.unlink(_bare(name), dir_fd=self._descriptor)
        except FileNotFoundError:
            return False
        return True

    def status(self, name: str) -> os.stat_result | None:
        """Look at an entry, not at what a link names; None where there is none."""
        try:
            return os.stat(_bare(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_file_of_another(self, name: str) -> bool:
        """Whether a regular file without a second name is there, and belongs to a user who may not write here."""
        status = self.status(name)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return False
        return status.st_uid not in _trusted()

    def read_link(self, name: str) -> str:
        """Say what a link names."""
        return os.readlink(_bare(name), dir_fd=self._descriptor)

    def make_directory(self, name: str) -> None:
        """Make a directory for its owner to write in and everybody to read."""
        os.mkdir(_bare(name), 0o755, dir_fd=self._descriptor)

    def give(self, name: str, uid: int, mode: int) -> None:
        """Give an entry of ours to a user and set who may write it; nothing where it is so already.

        Raises:
            UnsafePathError: it is a link, a file with a second name, or neither ours nor that user's.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(_bare(name), flags, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise UnsafePathError(f"{self.shown(name)!r} is a symbolic link: remove it") from error
        try:
            status = os.fstat(descriptor)
            if status.st_uid not in (os.geteuid(), uid) or (not stat.S_ISDIR(status.st_mode) and status.st_nlink != 1):
                raise UnsafePathError(
                    f"{self.shown(name)!r} belongs to uid {status.st_uid} or has a second name, expected is an entry "
                    f"of uid {os.geteuid()} or {uid}: remove it"
                )
            # The mode first: once it is another user's, only a capability could change it.
            if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode:
                os.fchmod(descriptor, mode)
            if status.st_uid != uid:
                os.fchown(descriptor, uid, uid)
        finally:
            os.close(descriptor)

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link, for people and programs that read."""
        os.symlink(target, _bare(name), dir_fd=self._descriptor)

    def names(self) -> tuple[str, ...]:
        """List the entries, sorted."""
        with self._readable() as descriptor:
            return tuple(sorted(os.listdir(descriptor)))  # noqa: PTH208 - pathlib knows no descriptors

    def sync(self) -> None:
        """Make renames and removals last."""
        with self._readable() as descriptor:
            os.fsync(descriptor)

    def shown(self, name: str) -> str:
        """Write a file's whole path, for messages."""
        return f"{self.path.rstrip('/')}/{name}"

    @contextmanager
    def _readable(self) -> Iterator[int]:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _write_new(self, name: str, content: bytes, attributes: Attributes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(_bare(name), flags, 0o600, dir_fd=self._descriptor), "wb") as file:
            status = os.fstat(file.fileno())
            if attributes.owner not in (None, (status.st_uid, status.st_gid)):
                os.fchown(file.fileno(), *attributes.owner)
            os.fchmod(file.fileno(), attributes.mode)
            _write_label(file.fileno(), attributes.label)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def open_directory(path: Path | str, *, root: Path = Path("/"), make: bool = False) -> Iterator[SafeDirectory]:
    """Open a directory to write in; ``root`` is where another filesystem's ``/`` is mounted, whose links stay below it.

    ``make`` creates what is missing of it, for its owner to write and everybody to read.

    Raises:
        UnsafePathError: someone else can write in one of its directories, or owns it.
        OSError: it cannot be opened; FileNotFoundError where it is missing.
    """
    with _opened(path, root, _Checked(make=make)) as descriptor:
        yield SafeDirectory(descriptor, str(path))


@contextmanager
def open_to_look(path: Path | str, *, root: Path = Path("/")) -> Iterator[SafeDirectory]:
    """Open a directory only for reading, even if other users can write to it. Raises ``OSError``."""
    with _opened(path, root, None) as descriptor:
        yield SafeDirectory(descriptor, str(path))


def remove_file(path: Path) -> bool:
    """Remove a file, link or socket; False where there was none. Raises as ``open_directory`` does."""
    try:
        with open_directory(path.parent) as directory:
            return directory.remove(path.name)
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class _Checked:
    """The rule for directories on the way and at the end."""

    make: bool = False

    def check_directory(self, status: os.stat_result, shown: str, *, is_last: bool) -> None:
        if status.st_uid not in _trusted():
            raise UnsafePathError(
                f"directory {shown!r} belongs to uid {status.st_uid}, expected is {_words()}: give it to that user "
                "(chown), or name another directory"
            )
        open_to_others = status.st_mode & _BY_OTHERS
        if open_to_others and (is_last or not status.st_mode & stat.S_ISVTX):
            raise UnsafePathError(
                f"directory {shown!r} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}, group "
                f"{status.st_gid}), who could send what is written there elsewhere: chmod go-w, or name another "
                "directory"
            )

    def check_link(self, status: os.stat_result, shown: str) -> None:
        """Check a link's owner: with the sticky bit any user may have created it, without it only trusted users."""
        if status.st_uid not in _trusted():
            raise UnsafePathError(
                f"{shown!r} is a symbolic link that belongs to uid {status.st_uid}, expected is {_words()}: remove it"
            )


@contextmanager
def _opened(path: Path | str, root: Path, rule: _Checked | None) -> Iterator[int]:
    with ExitStack() as held:
        base = os.open("/", _SEARCH)
        held.callback(os.close, base)
        if root != Path("/"):
            base = _descend(base, PurePosixPath(root.absolute()), rule, is_end=False)
            held.callback(os.close, base)
        found = _descend(base, PurePosixPath("/", path), rule, is_end=True)
        held.callback(os.close, found)
        yield found


def _descend(base: int, path: PurePosixPath, rule: _Checked | None, *, is_end: bool) -> int:
    """Walk from ``base``, which is what ``/`` and ``..`` above it mean; returns a descriptor of its own."""
    walked = [(os.dup(base), "/")]
    todo = list(reversed(path.parts))
    links = 0
    try:
        while todo:
            part = todo.pop()
            here, shown = walked[-1]
            if part.startswith("/"):
                _close(walked, 1)
            elif part == "..":
                _close(walked, max(1, len(walked) - 1))
            else:
                where = f"{shown.rstrip('/')}/{part}"
                status = _look(here, part, rule)
                if stat.S_ISLNK(status.st_mode):
                    links += 1
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), where)
                    if rule is not None:
                        rule.check_link(status, where)
                    todo.extend(reversed(PurePosixPath(os.readlink(part, dir_fd=here)).parts))
                    continue
                walked.append((os.open(part, _SEARCH, dir_fd=here), where))
                if rule is not None:
                    # What was opened is checked, not what was looked at: it may have been replaced in between.
                    rule.check_directory(os.fstat(walked[-1][0]), where, is_last=is_end and not todo)
        return walked.pop()[0]
    finally:
        _close(walked, 0)


def _look(here: int, name: str, rule: _Checked | None) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        if rule is None or not rule.make:
            raise
    os.mkdir(name, 0o755, dir_fd=here)
    return os.stat(name, dir_fd=here, follow_symlinks=False)


def _close(walked: list[tuple[int, str]], keep: int) -> None:
    while len(walked) > keep:
        os.close(walked.pop()[0])


def _trusted() -> tuple[int, ...]:
    return (0, os.geteuid())


def _words() -> str:
    return "root" if os.geteuid() == 0 else f"root or uid {os.geteuid()}"


def _bare(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{name!r} must be the name of a file, without a directory")
    return name


def _check_own_file(descriptor: int, shown: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafePathError(f"{shown!r} is not a regular file: remove it")
    if status.st_nlink != 1:
        raise UnsafePathError(
            f"{shown!r} has another name elsewhere (a hard link), which would be written too: remove it"
        )
    if status.st_uid not in _trusted():
        raise UnsafePathError(f"{shown!r} belongs to uid {status.st_uid}, expected is {_words()}: remove it")
    if status.st_mode & _BY_OTHERS and status.st_uid == os.geteuid():
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_BY_OTHERS)


def read_label(descriptor: int) -> bytes | None:
    """Read the SELinux label of an open file; None where there is none."""
    try:
        return os.getxattr(descriptor, _SELINUX)
    except OSError:
        # No SELinux here, or no label on this file: there is nothing to keep.
        return None


def _write_label(descriptor: int, label: bytes | None) -> None:
    if label is None:
        return
    try:
        os.setxattr(descriptor, _SELINUX, label)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL):
            raise
        # The policy's default label for this place stands then, which is what a file made by hand has.
