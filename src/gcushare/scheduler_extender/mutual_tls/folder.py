"""A folder of files that change all at once, as Kubernetes mounts a Secret: links that lead through one link."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_NOW = "..data"
"""The link that is renamed over; a server that follows its files looks for changes beside it."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SwappedFolder:
    """``path`` must be a folder that no other user can read: it holds private keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def file(self, name: str) -> Path:
        """Where a file of that name is, once it was put there."""
        return self._path / name

    def put(self, files: Mapping[str, bytes]) -> None:
        """Replace all the files in one step; no reader sees the certificate of one set with the key of another.

        Cut off at any point, by a full disk say, it leaves the files as they were; the next one removes what it left.
        """
        self._count += 1
        home = self._path / f"..{self._count}"
        home.mkdir(mode=0o700)
        for name, content in files.items():
            with os.fdopen(os.open(home / name, _NEW_FILE, 0o600), "wb") as out:
                out.write(content)
            if not (link := self._path / name).is_symlink():
                link.symlink_to(Path(_NOW) / name)
        now, following = self._path / _NOW, self._path / f"{_NOW}.next"
        following.unlink(missing_ok=True)
        following.symlink_to(home.name)
        following.replace(now)
        for each in self._path.iterdir():
            if each.is_dir() and not each.is_symlink() and each != home:
                shutil.rmtree(each)
