"""Careful handling of the host's files: nothing is half-written, nothing strays into the kubelet's directory."""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from gcushare.core.errors import ConfigError, Refused

logger = logging.getLogger(__name__)

_SELINUX = "security.selinux"
_MAX_LINKS = 40
"""As the kernel's own limit on following symbolic links."""
_MAX_FILE_BYTES = 4 * 1024 * 1024
"""A manifest or scheduler configuration is some kilobytes; anything this large is not one."""


class HostFileError(ConfigError):
    """A file of the host cannot be read or written; ``path`` says which, ``reason`` is the system's word."""

    def __init__(self, action: str, path: str, error: OSError) -> None:
        self.path = path
        self.reason = error.strerror or str(error)
        super().__init__(f"cannot {action} {path!r}: {self.reason}{_advice(error)}")


@dataclass(frozen=True, slots=True)
class FileState:
    """A regular file's content with what a replacement has to keep."""

    content: bytes
    mode: int
    uid: int
    gid: int
    label: bytes | None = None
    """The SELinux label, None where there is none."""


class Files(Protocol):
    """The host's files by their absolute path on the host."""

    def read(self, path: str) -> FileState | None:
        """Read a file; None when it does not exist. Raises ``Refused`` for a link and anything that is not a file."""

    def names(self, directory: str) -> tuple[str, ...]:
        """List a directory, sorted; empty when it does not exist."""

    def write(self, path: str, state: FileState) -> None:
        """Put ``state`` at ``path`` in one step: temporary file beside it, fsync, rename, fsync of the directory."""

    def replace(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` in one step; both on one filesystem."""

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens when it does not exist."""

    def is_one_filesystem(self, directory: str, other: str) -> bool:
        """Say whether a rename from one directory to the other can work."""


class HostFiles:
    """The real files below ``root``: ``/``, or where a pod has the host's filesystem mounted."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self, path: str) -> FileState | None:
        with _reported("read", path):
            place = self._place(path)
            try:
                descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise self._link_refused(path, place) from error
                raise
            try:
                return _read_open(descriptor, path)
            finally:
                os.close(descriptor)

    def names(self, directory: str) -> tuple[str, ...]:
        with _reported("list", directory):
            try:
                return tuple(sorted(entry.name for entry in self._resolved(PurePosixPath(directory)).iterdir()))
            except FileNotFoundError:
                return ()

    def write(self, path: str, state: FileState) -> None:
        with _reported("write", path):
            place = self._place(path)
            temporary = Path(temporary_path(str(place)))
            try:
                self._write_temporary(temporary, state)
                temporary.replace(place)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            _sync_directory(place.parent)

    def replace(self, source: str, target: str) -> None:
        with _reported(f"move {source!r} to", target):
            old, new = self._place(source), self._place(target)
            old.replace(new)
            _sync_directory(new.parent)
            _sync_directory(old.parent)

    def remove(self, path: str) -> None:
        with _reported("remove", path):
            place = self._place(path)
            if not place.parent.is_dir():
                return
            place.unlink(missing_ok=True)
            _sync_directory(place.parent)

    def is_one_filesystem(self, directory: str, other: str) -> bool:
        with _reported("look at", directory):
            one, two = (self._resolved(PurePosixPath(path)) for path in (directory, other))
            return one.stat().st_dev == two.stat().st_dev

    def _write_temporary(self, temporary: Path, state: FileState) -> None:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            status = os.fstat(descriptor)
            if (status.st_uid, status.st_gid) != (state.uid, state.gid):
                os.fchown(descriptor, state.uid, state.gid)
            os.fchmod(descriptor, state.mode)
            _write_label(descriptor, state.label)
            file.write(state.content)
            file.flush()
            os.fsync(descriptor)

    def _link_refused(self, path: str, place: Path) -> Refused:
        target = str(place.readlink())
        return Refused(
            f"{path!r} is a symbolic link to {target!r}: replacing it would cut the link, and the kubelet does not see "
            "changes behind one; name the file itself, or put a regular file there"
        )

    def _place(self, path: str) -> Path:
        """Find the file below the root, following links of its directories as a chroot would."""
        if not path.startswith("/"):
            raise ConfigError(f"{path!r} must be an absolute path")
        pure = PurePosixPath(os.path.normpath(path))
        return self._resolved(pure.parent) / pure.name if pure.name else self._root

    def _resolved(self, directory: PurePosixPath) -> Path:
        todo = list(reversed(directory.parts[1:]))
        done = PurePosixPath("/")
        links = 0
        while todo:
            part = todo.pop()
            if part in ("..", "."):
                done = done.parent if part == ".." else done
                continue
            here = self._root / done.relative_to("/") / part
            if not here.is_symlink():
                done /= part
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = PurePosixPath(here.readlink())
            done = PurePosixPath("/") if target.is_absolute() else done
            todo.extend(reversed([part for part in target.parts if part != "/"]))
        return self._root / done.relative_to("/")


def _read_open(descriptor: int, path: str) -> FileState:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path!r} is not a regular file")
    content = b""
    while chunk := os.read(descriptor, _MAX_FILE_BYTES + 1 - len(content)):
        content += chunk
        if len(content) > _MAX_FILE_BYTES:
            raise Refused(f"{path!r} has more than {_MAX_FILE_BYTES} bytes")
    return FileState(content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, _read_label(descriptor))


def temporary_path(path: str) -> str:
    """Say where ``write`` makes a file before it is renamed; a crash may leave it there.

    The leading dot: should the directory ever be one that the kubelet reads, it passes over such files.
    """
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.gcushare-tmp"


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_label(descriptor: int) -> bytes | None:
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
        # The policy's default label for this place stands then, which is what a file made by hand has.
        logger.debug("label not kept label=%r reason=%s", label, error)


@contextmanager
def _reported(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostFileError(action, path, error) from error


def _advice(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "; free some space and run it again"
        case errno.EROFS:
            return "; the filesystem is mounted read-only (in a pod: its volume)"
        case errno.EACCES | errno.EPERM:
            return "; run as root"
        case errno.EXDEV:
            return "; both must lie on one mount: mount their common directory as one volume"
        case _:
            return ""
