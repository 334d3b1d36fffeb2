"""Writes the archive: one tar.gz of bounded size, whole or not at all, with a manifest of its files."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from gcushare.cli.terminal.output import to_json
from gcushare.core.errors import ConfigError

MANIFEST = "MANIFEST.json"
_MANIFEST_VERSION = 1
MOST_BYTES = 64 << 20
"""Bytes of all contents before compression; what does not fit is listed in the manifest."""
_MODE = 0o600
"""Only for its owner: it has names of machines, namespaces and images."""


@dataclass(slots=True)
class Archive:
    """An archive being written; ``left_out`` has the reason for each missing file."""

    folder: str
    time: datetime
    budget_bytes: int
    _tar: tarfile.TarFile
    entries: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, content: bytes, what: str) -> None:
        """Write a file, unless it no longer fits."""
        if len(content) > self.budget_bytes:
            self.left_out[path] = f"its {len(content)} bytes did not fit any more"
            return
        self.budget_bytes -= len(content)
        self._write(path, content)
        digest = hashlib.sha256(content).hexdigest()
        self.entries.append({"path": path, "bytes": len(content), "sha256": digest, "what": what})

    def finish(self, about: dict[str, Any]) -> None:
        """Write the manifest. It does not count against the size limit, because it explains all other files."""
        manifest = {
            "version": _MANIFEST_VERSION,
            "time": self.time.isoformat(),
            **about,
            "files": self.entries,
            "leftOut": [{"path": path, "why": why} for path, why in sorted(self.left_out.items())],
        }
        self._write(MANIFEST, to_json(manifest).encode())

    def _write(self, path: str, content: bytes) -> None:
        member = tarfile.TarInfo(f"{self.folder}/{path}")
        member.size, member.mode, member.mtime = len(content), _MODE, int(self.time.timestamp())
        self._tar.addfile(member, io.BytesIO(content))


@contextmanager
def new_archive(path: Path, time: datetime, budget_bytes: int = MOST_BYTES) -> Iterator[Archive]:
    """Yield an archive, and create ``path`` if the block ends without an error; otherwise no file is left.

    Raises:
        ConfigError: the file exists, or cannot be written.
    """
    if path.exists():
        raise ConfigError(f"{str(path)!r} exists already: name another file, it is never overwritten")
    partial = path.with_name(f".{path.name}.partial")
    try:
        # In /tmp another user may have put a link there; what a killed run of ours left is removed.
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
    except OSError as failure:
        raise ConfigError(f"{str(path)!r} cannot be written: {failure.strerror}; name a file elsewhere") from failure
    try:
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
            folder = path.name.removesuffix(".gz").removesuffix(".tgz").removesuffix(".tar")
            yield Archive(folder, time, budget_bytes, tar)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
