"""Directories in which a program writes. Other users can neither write there nor redirect the path.

If a privileged program opens a file by its path, a user who can change one directory of that path decides where it
writes. So the path is walked component by component. Each is opened below the one before it (``openat`` with
``O_NOFOLLOW``), and the opened directory is checked:

- It belongs to root or to the program's own user.
- Others cannot write to it. A parent may have the sticky bit instead (/tmp), but not the last directory.
- A link is followed only if root or the program's own user owns it, and as in a chroot (/var/run is a link).

Files are then opened, renamed and removed by name below that descriptor, so later changes of the path have no effect. A
file is never opened through a link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gcushare.core.errors import ConfigError

_MAX_LINKS = 40
"""The kernel's own limit on symbolic links in a path."""
_BY_OTHERS = 0o022
_SELINUX = "security.selinux"
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""With O_PATH, if the system has it, a parent directory need not be readable."""
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""O_NONBLOCK opens a pipe without waiting for its other end."""


class UnsafePathError(ConfigError):
    """Another user could redirect a file, so it is not written. The message names the user and the remedy."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of a new file. None leaves the owner or the SELinux label as the system sets it."""

    mode: int = 0o644
    owner: tuple[int, int] | None = None
    label: bytes | None = None


class SafeDirectory:
    """An open directory. Files in it are given by name, without a directory; ``path`` is only for messages."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    def open_to_read(self, name: str) -> int:
        """Open a file for reading. Raises ``OSError`` with ELOOP for a link."""
        return os.open(_bare(name), os.O_RDONLY | _FILE, dir_fd=self._descriptor)

    def open_own_to_read(self, name: str) -> int:
        """Open a file for reading that no other user can have written or can write.

        Raises:
            UnsafePathError: it is not a regular file, has a hard link, belongs to another user, or others may write it.
            OSError: it cannot be opened; with ELOOP it is a link.
        """
        descriptor, shown = self.open_to_read(name), self.shown(name)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnsafePathError(f"{shown!r} is not a regular file: remove it")
            _check_owner(status, repr(shown), "remove it")
            if status.st_nlink != 1 or status.st_mode & _BY_OTHERS:
                raise UnsafePathError(
                    f"{shown!r} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}, {status.st_nlink} "
                    "names), expected is one name and a mode like 0600: remove it"
                )
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_to_append(self, name: str) -> int:
        """Open a file at its end; create it if it does not exist.

        Raises:
            UnsafePathError: it is a link, is not a regular file, has a hard link, or belongs to another user.
        """
        flags, shown = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE, self.shown(name)
        try:
            descriptor = os.open(_bare(name), flags, 0o644, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            target = os.readlink(name, dir_fd=self._descriptor)
            raise UnsafePathError(
                f"{shown!r} is a symbolic link to {target!r}, and files are never written through one: remove it"
            ) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UnsafePathError(f"{shown!r} is not a regular file: remove it")
            if status.st_nlink != 1:
                raise UnsafePathError(
                    f"{shown!r} has another name elsewhere (a hard link), which would be written too: remove it"
                )
            _check_owner(status, repr(shown), "remove it")
            if status.st_mode & _BY_OTHERS and status.st_uid == os.geteuid():
                os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_BY_OTHERS)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def holds(self, name: str, content: bytes) -> bool:
        """Whether a file that only we can write has exactly this content."""
        try:
            with os.fdopen(self.open_own_to_read(name), "rb") as file:
                return file.read(len(content) + 1) == content
        except (UnsafePathError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            return False

    def write(self, name: str, content: bytes, attributes: Attributes, temporary: str) -> None:
        """Write a file atomically: write ``temporary`` in the same directory, fsync, rename, fsync of the directory.

        A link with this name is replaced, not its target. If writing fails, the old file is unchanged.
        """
        self.remove(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(_bare(temporary), flags, 0o600, dir_fd=self._descriptor), "wb") as file:
                status = os.fstat(file.fileno())
                # The mode first: after the change of owner, only a capability could change it.
                os.fchmod(file.fileno(), attributes.mode)
                if attributes.owner not in (None, (status.st_uid, status.st_gid)):
                    os.fchown(file.fileno(), *attributes.owner)
                if attributes.label is not None:
                    _write_label(file.fileno(), attributes.label)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self.rename(temporary, self, name)
        except BaseException:
            self.remove(temporary)
            raise

    def check_writable(self) -> None:
        """Check that a file can be created here, by one without a name. Raises ``OSError`` as creating one does."""
        flags = os.O_WRONLY | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
        try:
            os.close(os.open(".", flags, 0o600, dir_fd=self._descriptor))
        except OSError as error:
            # Not every filesystem has files without a name.
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
            if not os.access(".", os.W_OK | os.X_OK, dir_fd=self._descriptor, effective_ids=True):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from error

    def rename(self, name: str, target: SafeDirectory, new_name: str, *, is_lasting: bool = True) -> None:
        """Rename a file over ``new_name``. With ``is_lasting`` the rename survives a power failure."""
        os.rename(_bare(name), _bare(new_name), src_dir_fd=self._descriptor, dst_dir_fd=target._descriptor)
        for changed in {target, self} if is_lasting else ():
            changed.sync()

    def remove(self, name: str) -> bool:
        """Remove a file or link; False if it does not exist."""
        try:
            os.unlink(_bare(name), dir_fd=self._descriptor)
        except FileNotFoundError:
            return False
        return True

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry, of a link itself; None if it does not exist."""
        try:
            return os.stat(_bare(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_file_of_another(self, name: str) -> bool:
        """Whether this is a regular file without a hard link that belongs to neither root nor the program's user."""
        status = self.status(name)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return False
        return status.st_uid not in _trusted()

    def read_link(self, name: str) -> str:
        return os.readlink(_bare(name), dir_fd=self._descriptor)

    def make_directory(self, name: str) -> None:
        os.mkdir(_bare(name), 0o755, dir_fd=self._descriptor)

    def give(self, name: str, uid: int, mode: int) -> None:
        """Give an entry of ours to a user and set its mode. Repeatable.

        Raises:
            UnsafePathError: it is a link, a file with a hard link, or belongs to a third user.
        """
        try:
            descriptor = self.open_to_read(name)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise UnsafePathError(f"{self.shown(name)!r} is a symbolic link: remove it") from error
        with _closing(descriptor):
            status = os.fstat(descriptor)
            if status.st_uid not in (os.geteuid(), uid) or (not stat.S_ISDIR(status.st_mode) and status.st_nlink != 1):
                raise UnsafePathError(
                    f"{self.shown(name)!r} belongs to uid {status.st_uid} or has a second name, expected is an entry "
                    f"of uid {os.geteuid()} or {uid}: remove it"
                )
            # The mode first: after the change of owner, only a capability could change it.
            if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != mode:
                os.fchmod(descriptor, mode)
            if status.st_uid != uid:
                os.fchown(descriptor, uid, uid)

    def link(self, name: str, target: str) -> None:
        """Create a symbolic link, for people and programs that read."""
        os.symlink(target, _bare(name), dir_fd=self._descriptor)

    def names(self) -> tuple[str, ...]:
        with self._readable() as descriptor:
            return tuple(sorted(os.listdir(descriptor)))  # noqa: PTH208 - pathlib knows no descriptors

    def sync(self) -> None:
        """Make renames and removals last."""
        with self._readable() as descriptor:
            os.fsync(descriptor)

    def shown(self, name: str) -> str:
        """Return a file's whole path, for messages."""
        return f"{self.path.rstrip('/')}/{name}"

    def _readable(self) -> AbstractContextManager[int]:
        return _closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor))


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_directory(
    path: Path | str, *, root: Path = Path("/"), make: bool = False, is_checked: bool = True
) -> Iterator[SafeDirectory]:
    """Open a directory to write in.

    ``root`` is where the host's filesystem is mounted; links stay below it. ``make`` creates missing directories with
    mode 0755. Without ``is_checked``, use it only for reading: other users may be able to write to it.

    Raises:
        UnsafePathError: another user can write to one of the path's directories, or owns it.
        OSError: it cannot be opened; FileNotFoundError if it does not exist.
    """
    with ExitStack() as held:
        base = os.open("/", _SEARCH)
        held.callback(os.close, base)
        if root != Path("/"):
            base = _descend(base, PurePosixPath(root.absolute()), is_checked=is_checked, make=make, is_end=False)
            held.callback(os.close, base)
        found = _descend(base, PurePosixPath("/", path), is_checked=is_checked, make=make, is_end=True)
        held.callback(os.close, found)
        yield SafeDirectory(found, str(path))


def remove_file(path: Path) -> bool:
    """Remove a file, link or socket; False if it does not exist. Raises as ``open_directory`` does."""
    try:
        with open_directory(path.parent) as directory:
            return directory.remove(path.name)
    except FileNotFoundError:
        return False


def _descend(base: int, path: PurePosixPath, *, is_checked: bool, make: bool, is_end: bool) -> int:
    """Walk from ``base``, which is also what ``/`` and a ``..`` above it mean; returns a new descriptor."""
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
                try:
                    status = os.stat(part, dir_fd=here, follow_symlinks=False)
                except FileNotFoundError:
                    if not make:
                        raise
                    os.mkdir(part, 0o755, dir_fd=here)
                    status = os.stat(part, dir_fd=here, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    links += 1
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), where)
                    if is_checked:  # with the sticky bit any user may have created it
                        _check_owner(status, f"{where!r} is a symbolic link that", "remove it")
                    todo.extend(reversed(PurePosixPath(os.readlink(part, dir_fd=here)).parts))
                    continue
                walked.append((os.open(part, _SEARCH, dir_fd=here), where))
                if is_checked:
                    # The opened directory is checked, because the entry may have been replaced in between.
                    _check_directory(os.fstat(walked[-1][0]), where, is_last=is_end and not todo)
        return walked.pop()[0]
    finally:
        _close(walked, 0)


def read_label(descriptor: int) -> bytes | None:
    """Read the SELinux label of an open file; None without one."""
    try:
        return os.getxattr(descriptor, _SELINUX)
    except OSError:
        return None


def _write_label(descriptor: int, label: bytes) -> None:
    """Set the SELinux label of a file of ours, if the system has labels."""
    try:
        os.setxattr(descriptor, _SELINUX, label)
    except OSError as error:
        # Otherwise the file has the policy's default label for this directory, as a file that an admin creates.
        if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL):
            raise


def _check_directory(status: os.stat_result, shown: str, *, is_last: bool) -> None:
    _check_owner(status, f"directory {shown!r}", "give it to that user (chown), or name another directory")
    if status.st_mode & _BY_OTHERS and (is_last or not status.st_mode & stat.S_ISVTX):
        raise UnsafePathError(
            f"directory {shown!r} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}, group "
            f"{status.st_gid}), who could redirect what is written there: chmod go-w, or name another directory"
        )


def _check_owner(status: os.stat_result, what: str, advice: str) -> None:
    if status.st_uid not in _trusted():
        expected = "root" if os.geteuid() == 0 else f"root or uid {os.geteuid()}"
        raise UnsafePathError(f"{what} belongs to uid {status.st_uid}, expected is {expected}: {advice}")


def _close(walked: list[tuple[int, str]], keep: int) -> None:
    while len(walked) > keep:
        os.close(walked.pop()[0])


def _trusted() -> tuple[int, ...]:
    return (0, os.geteuid())


def _bare(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise ValueError(f"{name!r} must be the name of a file, without a directory")
    return name
