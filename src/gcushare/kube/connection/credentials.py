"""Who we are to the API server: the Authorization header of each request, kept fresh."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gcushare.core.errors import ConfigError


class Credentials(Protocol):
    """Where the Authorization header comes from."""

    @property
    def generation(self) -> int:
        """Counts the client certificates that new connections have shown: those made before it grew show an old one."""
        ...

    async def header(self) -> str | None:
        """Return the header for the next request, None to send none.

        Raises:
            ConfigError: it cannot be had; says from where and what to do.
        """
        ...

    def reject(self, header: str | None) -> None:
        """Learn that the server answered 401 to ``header``; the next ``header()`` reads its source again."""
        ...


class FixedHeader:
    """A header that never changes: a token or a password written in a kubeconfig.

    None sends none: plain HTTP in tests, or a client certificate that says it all.
    """

    generation = 0

    def __init__(self, header: str | None = None) -> None:
        self._header = header

    async def header(self) -> str | None:
        """Send it."""
        return self._header

    def reject(self, header: str | None) -> None:
        """Nothing can be read again."""


class TokenFile:
    """A bearer token in a file that someone rotates: a service account's, or a kubeconfig's ``tokenFile``.

    The kubelet replaces a service account's token by moving a symbolic link after 80 % of its life (an hour by
    default), so the file is looked at before each request: one stat on tmpfs, a few microseconds.
    """

    generation = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._header = ""

    async def header(self) -> str | None:
        """Read the token again when its file changed."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if stamp != self._stamp:
                self._header = f"Bearer {_read_token(self._path)}"
                self._stamp = stamp
        except OSError as error:
            raise ConfigError(f"cannot read the token file {str(self._path)!r}: {error.strerror or error}") from error
        return self._header

    def reject(self, header: str | None) -> None:
        """Read the file again next time, changed or not."""
        self._stamp = None


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if not token or any(not 32 < ord(char) < 127 for char in token):
        raise ConfigError(f"the token file {str(path)!r} holds no token: expected one line of visible ASCII characters")
    return token
