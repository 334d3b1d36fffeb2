"""A server's TLS whose files are followed: a renewed certificate or client authority holds for the next handshake."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

import watchfiles

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.wire.certificates import first_end

logger = logging.getLogger(__name__)

# Looks at the files at least this often: mounts over a network and some overlays report no changes.
_LOOK_EVERY_S = 30.0
# How long to gather changes into one: a renewal writes several files.
_SETTLE_MS = 200


class Purpose(Enum):
    """What a file of certificates is for."""

    SERVER = "server"
    CLIENT_CA = "client_ca"
    CLIENT = "client"
    """What a client was given to show."""


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """The earliest end among the certificates of a file: from then on handshakes that need it fail."""

    file: Path
    purpose: Purpose
    not_after: datetime


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of a server; with ``client_ca`` clients that show a certificate must have it from there.

    ``requires_client`` ends the handshake of a client that shows none: for a port that no one else has to reach.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None
    requires_client: bool = False

    @classmethod
    def from_settings(cls, settings: ServeSettings, *, requires_client: bool = False) -> TlsFiles | None:
        """Return the files that the settings name, None for plain HTTP."""
        if settings.tls_cert_file is None or settings.tls_key_file is None:
            return None
        return cls(settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file, requires_client)

    @property
    def all(self) -> tuple[Path, ...]:
        """Every file, for reading and for following."""
        return (self.cert, self.key) if self.client_ca is None else (self.cert, self.key, self.client_ca)

    @property
    def certificates(self) -> Mapping[Purpose, Path]:
        """The files that hold certificates, which end one day."""
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
                raise ConfigError(
                    f"TLS file {str(path)!r} cannot be read: {error}; name a readable PEM file"
                ) from error
        return contents

    def load(self) -> ssl.SSLContext:
        """Build a context from the files as they are now.

        Raises:
            ConfigError: a file is missing or malformed, or key and certificate do not belong together.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2 if self.client_ca is None else ssl.TLSVersion.TLSv1_3
        # A resumed session would let a client in on an authority that a reload has meanwhile taken away. Without
        # tickets TLS 1.3 resumes nothing; TLS 1.2 would still resume by session id, so it is not offered then.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_cert_chain(self.cert, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                # Optional where the kubelet's probes come in, which can show no certificate: the server asks for it.
                context.verify_mode = ssl.CERT_REQUIRED if self.requires_client else ssl.CERT_OPTIONAL
        except (OSError, ValueError) as error:
            names = ", ".join(repr(str(path)) for path in self.all)
            message = (
                f"TLS files {names} cannot be used: {error}; give a PEM certificate chain and the key that fits it"
            )
            raise ConfigError(message) from error
        return context


def _reporting_failures(on_failure: Callable[[], None]) -> type[ssl.SSLObject]:
    """The connections' side of TLS; asyncio reports a handshake that failed to no one."""

    class Handshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError:
                on_failure()
                raise

    return Handshake


class FollowedTls:
    """The context that a listener keeps for its life, and the newest one that its handshakes really use."""

    def __init__(self, files: TlsFiles, on_failure: Callable[[], None] = lambda: None) -> None:
        """Load the files; raises ConfigError when they cannot be used. A failed handshake calls ``on_failure``."""
        self._files = files
        # Before loading: a change in between is then seen at the next look instead of never.
        contents = files.read()
        self._digest = _digest(contents)
        self._newest = files.load()
        self._ends = _find_ends(files, contents)
        self._last_problem = ""
        self.context = self._newest
        """What the listener is given; each handshake is moved to the newest context as it begins."""
        self.context.sni_callback = self._move_to_newest
        self.context.sslobject_class = _reporting_failures(on_failure)

    @property
    def ends(self) -> tuple[CertificateEnd, ...]:
        """When the certificates that handshakes use now end; without those whose end cannot be read."""
        return self._ends

    def _move_to_newest(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = self._newest

    def reload(self) -> bool:
        """Take the files' present contents if they changed and can be used; tell whether they were taken.

        Open connections go on as they are. Files that cannot be used are logged once, and the old contents stay.
        """
        try:
            contents = self._files.read()
            digest = _digest(contents)
            if digest == self._digest:
                return False
            newest = self._files.load()
        except ConfigError as error:
            if str(error) != self._last_problem:
                logger.warning("TLS files not reloaded, the old ones stay %s", fields(reason=error))
            self._last_problem = str(error)
            return False
        self._newest, self._digest, self._last_problem = newest, digest, ""
        self._ends = _find_ends(self._files, contents)
        logger.info("TLS files reloaded %s", fields(cert=self._files.cert, client_ca=self._files.client_ca))
        return True

    async def follow(self, stop: asyncio.Event) -> None:
        """Reload whenever the files change, until ``stop`` is set.

        Folders are watched, not files: Kubernetes replaces a mounted Secret by renaming a link beside them.
        """
        folders = {path.parent for path in self._files.all}
        while not stop.is_set():
            try:
                async for _ in self._watch(folders, stop):
                    self.reload()
            except (OSError, RuntimeError) as error:
                # The node's inotify watches are used up (watchfiles raises a RuntimeError of its own), or a folder is
                # away for a moment.
                logger.warning("TLS folders not watched %s", fields(reason=error, look_every_s=_LOOK_EVERY_S))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_EVERY_S):
                        await stop.wait()
                self.reload()

    @staticmethod
    def _watch(folders: set[Path], stop: asyncio.Event) -> AsyncIterator[object]:
        return watchfiles.awatch(
            *folders,
            watch_filter=None,
            debounce=_SETTLE_MS,
            stop_event=stop,
            rust_timeout=int(_LOOK_EVERY_S * 1000),
            yield_on_timeout=True,
            recursive=False,
        )


def _digest(contents: Mapping[Path, bytes]) -> str:
    whole = hashlib.sha256()
    for path, content in contents.items():
        whole.update(f"{path}:{len(content)}:".encode() + content)
    return whole.hexdigest()


def _find_ends(files: TlsFiles, contents: Mapping[Path, bytes]) -> tuple[CertificateEnd, ...]:
    """Read the ends of certificates that OpenSSL has taken; one that only we cannot read keeps no one from serving."""
    found: list[CertificateEnd] = []
    for purpose, path in files.certificates.items():
        try:
            found.append(CertificateEnd(path, purpose, first_end(contents[path])))
        except RemoteContractError as error:
            logger.warning(
                "end of TLS certificate not known %s", fields(file=path, purpose=purpose.value, reason=error)
            )
    return tuple(found)
