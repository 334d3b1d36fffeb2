"""TLS contexts towards the API server, from files or from bytes."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from gcushare.core.errors import ConfigError


def client_context(authority_pem: bytes | None, where: str, *, verify: bool = True) -> ssl.SSLContext:
    """Build a context that trusts ``authority_pem`` alone, or the system's authorities when it is None.

    Raises:
        ConfigError: the bytes are no PEM certificates; ``where`` says whose.
    """
    try:
        data = None if authority_pem is None else authority_pem.decode("ascii")
        context = ssl.create_default_context(cadata=data)
    except (UnicodeDecodeError, ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where}: the certificate authority is no PEM certificate: {error}") from error
    # On by default since Python 3.13; it refuses the authorities that older cluster installers made.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes, where: str) -> None:
    """Make the context present a client certificate, from the next connection on.

    Effects: OpenSSL reads keys from files only, so both stand in a private folder for the length of this call.

    Raises:
        ConfigError: they are no PEM, do not belong together, or the key needs a password.
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
