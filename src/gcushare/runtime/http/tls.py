"""A server's TLS. Its files are followed: the next handshake uses a renewed certificate or client authority."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.wire.certificates import first_end

logger = logging.getLogger(__name__)

_POLL_S = 2.0


class Purpose(Enum):
    """What a file of certificates is for."""

    SERVER = "server"
    CLIENT_CA = "client_ca"
    CLIENT = "client"
    """What a client presents."""


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """The earliest end among the certificates of a file. From then on, handshakes that need it fail."""

    file: Path
    purpose: Purpose
    not_after: datetime


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of a server. With ``client_ca``, a certificate that a client presents must be signed by it.

    ``requires_client`` ends the handshake of a client without a certificate. Use it for a port without probes.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    requires_client: bool = False

    @classmethod
    def from_settings(cls, settings: ServeSettings, *, requires_client: bool = False) -> TlsFiles | None:
        if settings.tls_cert_file is None or settings.tls_key_file is None:
            return None
        return cls(settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file, requires_client)

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.cert, self.key) if self.client_ca is None else (self.cert, self.key, self.client_ca)

    @property
    def certificates(self) -> Mapping[Purpose, Path]:
        own = {Purpose.SERVER: self.cert}
        return own if self.client_ca is None else own | {Purpose.CLIENT_CA: self.client_ca}

    def read(self) -> dict[Path, bytes]:
        """Read the files as they are now.

        Raises:
            ConfigError: one of them cannot be read.
        """
        contents: dict[Path, bytes] = {}
        for path in self.all:
            try:
                contents[path] = path.read_bytes()
            except OSError as error:
                text = f"TLS file {str(path)!r} cannot be read: {error}; name a readable PEM file"
                raise ConfigError(text) from error
        return contents

    def load(self) -> ssl.SSLContext:
        """Build a context from the files as they are now.

        Raises:
            ConfigError: a file is missing or malformed, or key and certificate do not belong together.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2 if self.client_ca is None else ssl.TLSVersion.TLSv1_3
        # A resumed session would admit a client whose authority a reload has removed. Without tickets TLS 1.3 resumes
        # nothing. TLS 1.2 would still resume by session id, so it is not offered with client certificates.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_cert_chain(self.cert, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                # Optional on a port with the kubelet's probes, which have no certificate: the request gate checks it.
                context.verify_mode = ssl.CERT_REQUIRED if self.requires_client else ssl.CERT_OPTIONAL
        except (OSError, ValueError) as error:
            names = ", ".join(repr(str(path)) for path in self.all)
            advice = "give a PEM certificate chain and the key that fits it"
            raise ConfigError(f"TLS files {names} cannot be used: {error}; {advice}") from error
        return context


class FollowedTls:
    """The context that a listener keeps, and the newest one, which its handshakes use."""

    def __init__(self, files: TlsFiles, on_failure: Callable[[], None] = lambda: None) -> None:
        """Load the files. A failed handshake calls ``on_failure``. Raises as ``TlsFiles.read`` and ``load`` do."""
        self._files = files
        # Read before loading, so that the next poll finds a change in between.
        self._contents = files.read()
        self._newest = files.load()
        self.ends = _find_ends(files, self._contents)
        """When the certificates in use end, without those whose end cannot be read."""
        self._last_problem = ""
        self.context = self._newest
        """What the listener is given; each handshake is moved to the newest context as it begins."""

        def move_to_newest(handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
            handshake.context = self._newest

        class Handshake(ssl.SSLObject):
            """Reports a failed handshake, which asyncio does not."""

            def do_handshake(self) -> None:
                try:
                    super().do_handshake()
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    raise
                except ssl.SSLError:
                    on_failure()
                    raise

        self.context.sni_callback = move_to_newest
        self.context.sslobject_class = Handshake

    def reload(self) -> bool:
        """Load the files again if they have changed; returns whether the new ones are used.

        Open connections stay as they are. If the files cannot be used, that is logged once and the old ones stay.
        """
        try:
            contents = self._files.read()
            if contents == self._contents:
                return False
            newest = self._files.load()
        except ConfigError as error:
            if str(error) != self._last_problem:
                logger.warning("TLS files not reloaded, the old ones stay %s", fields(reason=error))
            self._last_problem = str(error)
            return False
        self._newest, self._contents, self._last_problem = newest, contents, ""
        self.ends = _find_ends(self._files, contents)
        logger.info("TLS files reloaded %s", fields(cert=self._files.cert, client_ca=self._files.client_ca))
        return True

    async def follow(self, stop: asyncio.Event, poll_s: float = _POLL_S) -> None:
        """Look at the files every ``poll_s`` seconds until ``stop`` is set.

        They are small, and reading them is right for mounted Secrets, network mounts and overlays alike.
        """
        while not stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_s):
                    await stop.wait()
            self.reload()


def _find_ends(files: TlsFiles, contents: Mapping[Path, bytes]) -> tuple[CertificateEnd, ...]:
    """OpenSSL has accepted the certificates, so one that only we cannot read is left out."""
    found: list[CertificateEnd] = []
    for purpose, path in files.certificates.items():
        try:
            found.append(CertificateEnd(path, purpose, first_end(contents[path])))
        except RemoteContractError as error:
            logger.warning(
                "end of TLS certificate not known %s", fields(file=path, purpose=purpose.value, reason=error)
            )
    return tuple(found)
