"""Credentials for the API server: the current Authorization header for each request."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gcushare.core.errors import ConfigError


class Credentials(Protocol):
    """A source of the Authorization header."""

    @property
    def generation(self) -> int:
        """Counts client certificates. Connections made before it increased present an old certificate."""

    async def header(self) -> str | None:
        """Return the header for the next request; None to send none.

        Raises:
            ConfigError: the credentials are unavailable; the message says where they come from and what to do.
        """

    def reject(self, header: str | None) -> None:
        """Handle a 401 to ``header``: the next ``header()`` reads its source again."""


class FixedHeader:
    """A constant header: a token or a password from a kubeconfig.

    None sends no header: for plain HTTP in tests, or with a client certificate.
    """

    generation = 0

    def __init__(self, header: str | None = None) -> None:
        self._header = header

    async def header(self) -> str | None:
        return self._header

    def reject(self, header: str | None) -> None:
        """Do nothing, because there is no source to read again."""


class TokenFile:
    """A bearer token in a file that is rotated: a service account's token, or a kubeconfig's ``tokenFile``.

    The kubelet replaces a service account's token by moving a symbolic link after 80 % of its lifetime (an hour by
    default). So the file is checked before each request, which takes one stat on tmpfs, a few microseconds.
    """

    generation = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._header = ""

    async def header(self) -> str | None:
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if stamp != self._stamp:
                token = self._path.read_text(encoding="utf-8", errors="replace").strip()
                if not token or any(not 32 < ord(char) < 127 for char in token):
                    name = str(self._path)
                    raise ConfigError(
                        f"the token file {name!r} has no token: expected one line of visible ASCII characters"
                    )
                self._header, self._stamp = f"Bearer {token}", stamp
        except OSError as error:
            raise ConfigError(f"cannot read the token file {str(self._path)!r}: {error.strerror or error}") from error
        return self._header

    def reject(self, header: str | None) -> None:
        """Read the file again next time, even if it has not changed."""
        self._stamp = None
