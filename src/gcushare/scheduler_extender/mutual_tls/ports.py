"""The two ports that may answer the scheduler: its own over mutual TLS, and the first one to every caller."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gcushare.core.errors import ForbiddenError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.runtime.http.scheduler_requests import GetPath, Verb
from gcushare.runtime.http.scheduler_server import start_scheduler_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs, VerbsSettings
from gcushare.wire.contracts import VERBS_PORT

if TYPE_CHECKING:
    from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper


def first_port_verbs(where: Verbs, verbs: Sequence[Verb]) -> list[Verb]:
    """The scheduler's calls as the first port knows them: it answers them, or says which port does."""

    def refuse(_: bytes) -> bytes:
        raise ForbiddenError(
            f"the scheduler's calls are answered over mutual TLS on port {VERBS_PORT} alone; "
            "a scheduler that cannot needs scheduler.verbs=plain, see docs/security.md"
        )

    if where is Verbs.OFF:
        return []
    return list(verbs) if where.is_plain else [replace(verb, answer=refuse) for verb in verbs]


class VerbsPort:
    """The scheduler's own port, if the settings ask for one."""

    def __init__(self, settings: VerbsSettings, serve: ServeSettings, client: KubeClient, clock: Clock) -> None:
        self._settings = settings
        self._serve = serve
        self.is_wanted = settings.verbs.needs_certificates
        self.folder: AbstractContextManager[object] = nullcontext()
        """Holds the files of the certificates until it is left."""
        self.keeper: CertificateKeeper | None = None
        """Keeps the certificates, if they are in a Secret; it knows when those of both sides end."""
        if (self.is_wanted or settings.tls_from_verbs_secret) and settings.verbs_secret is not None:
            # Imported here: ``cryptography`` takes 0.15 s to import.
            from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
            from gcushare.scheduler_extender.mutual_tls.issuing import Terms

            self.folder = folder = tempfile.TemporaryDirectory(prefix="gcushare-verbs-")
            terms = Terms(settings.verbs_server_name)
            self.keeper = CertificateKeeper(client, settings.verbs_secret, terms, Path(folder.name), clock=clock)
        self.server: RunningServer | None = None

    async def find_obstacle(self) -> str | None:
        """Why the scheduler cannot call yet, for readiness; None if it can."""
        if not self.is_wanted or self.server is not None:
            return None
        return self.keeper.obstacle if self.keeper is not None and self.keeper.obstacle else "its port is not open"

    async def first_port_settings(self, shutdown: Shutdown) -> ServeSettings | None:
        """How the first port is served; None if the program has to stop before there is a certificate for it."""
        if self.keeper is None or not self._settings.tls_from_verbs_secret:
            return self._serve
        waits = [asyncio.ensure_future(each.wait()) for each in (self.keeper.ready, shutdown)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if not self.keeper.ready.is_set():
            return None
        files = self.keeper.files
        return replace(self._serve, tls_cert_file=files.cert, tls_key_file=files.key)

    async def open(self, verbs: Sequence[Verb], pages: Sequence[GetPath]) -> RunningServer:
        """Open the port once there are certificates.

        Raises:
            ConfigError: as `start_scheduler_server` does.
        """
        settings = self._settings
        if self.keeper is not None:
            await self.keeper.ready.wait()
            files = self.keeper.files
            cert, key, ca = files.cert, files.key, files.client_ca
        else:
            folder = settings.verbs_tls_dir
            assert folder is not None, "the settings need one of both"
            cert, key, ca = folder / "tls.crt", folder / "tls.key", folder / "ca.crt"

        serve = replace(
            self._serve, listen_port=settings.verbs_port, tls_cert_file=cert, tls_key_file=key, tls_client_ca_file=ca
        )
        self.server = await start_scheduler_server(verbs, pages, serve, only_client=settings.verbs_client_name)
        return self.server
