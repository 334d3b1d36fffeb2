"""Read and write the host's files safely: no file is half-written, and no link leads a write elsewhere."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.errors import ConfigError, Refused
from gcushare.runtime.safe_directory import Attributes, SafeDirectory, open_directory, read_label

_MAX_FILE_BYTES = 4 * 1024 * 1024
"""A manifest or scheduler configuration is some kilobytes; anything this large is not one."""

_MAX_LINKS = 40
"""The kernel's own limit on symbolic links in a path."""

_ADVICE: dict[int | None, str] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "; free some space and run it again"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "; run as root; if you are, see whether it is immutable (lsattr)"),
    errno.ENOENT: "; create its directory first",
    errno.EBUSY: "; it is mounted alone: mount its directory instead",
    errno.EISDIR: "; move that directory away",
    errno.EROFS: "; the filesystem is mounted read-only (in a pod: its volume; for a unit below /usr, `systemctl edit` "
    "a drop-in that has its ExecStart=, and name that with --unit)",
    errno.EXDEV: "; both must be on one mount: mount their common directory as one volume",
}


class HostFileError(ConfigError):
    """A file of the host cannot be read or written."""

    def __init__(self, action: str, path: str, error: OSError) -> None:
        super().__init__(f"cannot {action} {path!r}: {error.strerror or error}{_ADVICE.get(error.errno, '')}")


@dataclass(frozen=True, slots=True)
class FileState:
    """A regular file's content, and the attributes that a replacement must keep."""

    content: bytes
    mode: int
    uid: int
    gid: int
    label: bytes | None = None
    """The SELinux label, None without one."""

    def text(self, path: str) -> str:
        """Decode the content of the file at ``path``. Raises ``ConfigError`` if it is not text."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: not UTF-8 text: {error}") from error


class HostFiles:
    """The host's files by their absolute path there; ``root`` is ``/``, or where its filesystem is mounted in a pod.

    Links to directories are followed as in a chroot. A directory that others can write to is refused.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self, path: str) -> FileState | None:
        """Read a file; None if it does not exist. Raises ``Refused`` if it is a link or not a regular file."""
        directory, name = _split(path)
        with _reported("read", path), suppress(FileNotFoundError), self._looking_in(directory) as folder:
            return _read_in(folder, name, path)
        return None

    def link(self, path: str) -> str | None:
        """Return where a symbolic link leads, as it is written; None if there is no link."""
        directory, name = _split(path)
        with _reported("read", path), suppress(FileNotFoundError), self._looking_in(directory) as folder:
            status = folder.status(name)
            return folder.read_link(name) if status is not None and stat.S_ISLNK(status.st_mode) else None
        return None

    def names(self, directory: str) -> tuple[str, ...]:
        """List a directory, sorted; empty if it does not exist."""
        with _reported("list", directory), suppress(FileNotFoundError), self._looking_in(directory) as folder:
            return folder.names()
        return ()

    def check(self, path: str) -> None:
        """Check that the directory of ``path`` takes files. Raises as ``write`` does, and changes nothing."""
        with _reported("write", path), open_directory(_split(path)[0], root=self._root) as folder:
            folder.check_writable()

    def write(self, path: str, state: FileState) -> None:
        """Put ``state`` at ``path`` in one step: temporary file next to it, fsync, rename, fsync of the directory."""
        directory, name = _split(path)
        attributes = Attributes(state.mode, (state.uid, state.gid), state.label)
        with _reported("write", path), open_directory(directory, root=self._root) as folder:
            folder.write(name, state.content, attributes, posixpath.basename(temporary_path(path)))

    def replace(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` in one step; both on one filesystem."""
        (source_folder, name), (target_folder, new_name) = _split(source), _split(target)
        with (
            _reported(f"move {source!r} to", target),
            open_directory(source_folder, root=self._root) as old,
            open_directory(target_folder, root=self._root) as new,
        ):
            old.rename(name, new, new_name)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        directory, name = _split(path)
        # Without its directory the file does not exist either.
        with (
            _reported("remove", path),
            suppress(FileNotFoundError),
            open_directory(directory, root=self._root) as folder,
        ):
            if folder.remove(name):
                folder.sync()

    def _looking_in(self, directory: str) -> AbstractContextManager[SafeDirectory]:
        return open_directory(directory, root=self._root, is_checked=False)


def _split(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        raise ConfigError(f"{path!r} must be an absolute path")
    directory, name = posixpath.split(posixpath.normpath(path))
    if not name:
        raise ConfigError(f"{path!r} must name a file")
    return directory, name


def _read_in(folder: SafeDirectory, name: str, path: str) -> FileState:
    try:
        descriptor = folder.open_to_read(name)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Refused(
            f"{path!r} is a symbolic link to {folder.read_link(name)!r}: replacing it would remove the link, and the "
            "kubelet does not notice changes behind one; name the file itself, or put a regular file there; where the "
            "system makes the link (NixOS), change its own settings with what `gcushare-config-manager render` prints"
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path!r} is not a regular file: move it away, or name another one")
        if status.st_nlink == 0:
            raise Refused(
                f"{path!r} was replaced on the host since this pod started, which still has the former one: delete "
                "this pod; in configManager.readOnlyPaths name the file's directory, which shows every change"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise Refused(f"{path!r} has more than {_MAX_FILE_BYTES} bytes")
        mode = stat.S_IMODE(status.st_mode)
        return FileState(content, mode, status.st_uid, status.st_gid, read_label(descriptor))
    finally:
        os.close(descriptor)


def behind_links(files: HostFiles, path: str) -> str:
    """Follow symbolic links at ``path``; of a circle, some link in it."""
    for _ in range(_MAX_LINKS):
        link = files.link(path)
        if link is None:
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return path


def temporary_path(path: str) -> str:
    """Name the file that ``write`` creates and then renames; a crash may leave it.

    The kubelet ignores names with a leading dot in the directory of static pods.
    Source: kubelet, pkg/kubelet/config/file_linux.go (events) and file.go (its glob), 1.18 to 1.36.
    """
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.gcushare-tmp"


@contextmanager
def _reported(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostFileError(action, path, error) from error
