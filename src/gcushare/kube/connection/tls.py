"""TLS contexts for connections to the API server."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from gcushare.core.errors import ConfigError


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
