"""Credentials for the API server: the Authorization header of each request, client certificates, and TLS contexts."""

from __future__ import annotations

import ssl
import tempfile
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


def client_context(authority_pem: bytes | None, where: str, *, verify: bool = True) -> ssl.SSLContext:
    """Build a context that trusts only ``authority_pem``, or the system's authorities if it is None.

    Raises:
        ConfigError: the bytes are not PEM certificates; ``where`` is their source for the message.
    """
    try:
        data = None if authority_pem is None else authority_pem.decode("ascii")
        context = ssl.create_default_context(cadata=data)
    except (UnicodeDecodeError, ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where}: the certificate authority is not a PEM certificate: {error}") from error
    # Python enables this flag since 3.13. It refuses authorities that older cluster installers created.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes, where: str) -> None:
    """Make the context present a client certificate, from the next connection on.

    Effects: OpenSSL reads keys from files only, so both are in a private temporary folder during this call.

    Raises:
        ConfigError: they are not PEM, do not match, or the key needs a password.
    """

    def refuse_password() -> str:
        raise ConfigError(f"{where}: the client key is encrypted; only keys without a password can be used")

    with tempfile.TemporaryDirectory(prefix="gcushare-tls-") as folder:
        certificate_file, key_file = Path(folder, "client.crt"), Path(folder, "client.key")
        certificate_file.write_bytes(certificate)
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        try:
            context.load_cert_chain(certificate_file, key_file, password=refuse_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(f"{where}: the client certificate and key cannot be used: {error}") from error
