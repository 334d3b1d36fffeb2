"""Keep the certificates of both sides in one Secret: fill it, renew them, and write this side's files.

Every replica does so, and none has to lead: a write names the version of the Secret that was read, so of several
replicas one wins. The chart creates the Secret empty. With a right to create Secrets, the extender could create tokens
of other service accounts, because RBAC cannot limit a create by name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gcushare.core.errors import ConflictError, GcushareError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Resource
from gcushare.runtime.http.tls import CertificateEnd, Purpose, TlsFiles
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.wire.certificates import first_end
from gcushare.wire.contracts import CA, CLIENT_CERT, SERVER_CERT, SERVER_KEY

logger = logging.getLogger(__name__)

SECRETS: Resource[dict[str, Any]] = Resource("api/v1", "secrets", dict)

_CHECK_EVERY_S = 60.0
_RETRY_S = 2.0
"""After a failure, or when another replica wrote first."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ENDS = {SERVER_CERT: Purpose.SERVER, CA: Purpose.CLIENT_CA, CLIENT_CERT: Purpose.CLIENT}


class CertificateKeeper:
    """``run`` it in a task of its own; ``ready`` is set once ``files`` exist in ``folder``.

    No other user may read the folder: it holds private keys.
    """

    def __init__(self, client: KubeClient, secret: ObjectName, terms: Terms, folder: Path, *, clock: Clock) -> None:
        self._client = client
        self._secret = secret
        self._terms = terms
        self._folder = folder
        self._clock = clock
        self._written: Mapping[str, bytes] = {}
        self._problem = ""
        self.ready = asyncio.Event()
        self.certificate_ends: tuple[CertificateEnd, ...] = ()
        """When the certificates in the Secret end, the scheduler's included, for metrics."""
        self.files = TlsFiles(folder / SERVER_CERT, folder / SERVER_KEY, folder / CA, requires_client=True)

    @property
    def obstacle(self) -> str | None:
        """Why there are no certificates yet, for readiness; None once there are."""
        if self.ready.is_set():
            return None
        return f"no certificates for the scheduler's calls yet: {self._problem or 'not made yet'}"

    async def run(self) -> None:
        """Check the Secret until cancelled."""
        while True:
            await self._clock.sleep(_CHECK_EVERY_S if await self.check() else _RETRY_S)

    async def check(self) -> bool:
        """Check once; False if it has to be repeated soon.

        Files that exist stay in use while the Secret is gone or cannot be read.
        """
        try:
            self._write_files(await self._read_and_renew())
        except ConflictError:
            return False
        except (GcushareError, OSError) as error:  # OSError: with a full disk, the old files stay.
            if str(error) != self._problem:
                logger.warning("certificate check failed %s", fields(secret=self._secret, reason=error))
            self._problem = str(error)
            return False
        self._problem = ""
        return True

    async def _read_and_renew(self) -> Mapping[str, bytes]:
        """Read the Secret, and write it if something is due.

        Raises:
            ConflictError: another replica wrote it meanwhile.
            GcushareError: it does not exist, or cannot be read or written.
        """
        found = await self._client.get(SECRETS, self._secret.name, namespace=self._secret.namespace)
        held = _decoded(found.get("data") or {})
        issue = next_issue(held, self._terms, self._clock.now())
        if issue is None:
            return held
        version = (found.get("metadata") or {}).get("resourceVersion", "")
        data = {key: base64.b64encode(value).decode() for key, value in issue.data.items()}
        patch = Patch(PatchKind.MERGE, {"metadata": {"resourceVersion": version}, "data": data})
        await self._client.patch(SECRETS, self._secret.name, patch, namespace=self._secret.namespace)
        logger.info("certificates made %s", fields(secret=self._secret, reason=issue.reason))
        return issue.data

    def _write_files(self, data: Mapping[str, bytes]) -> None:
        if data == self._written:
            return
        for name in (SERVER_CERT, SERVER_KEY, CA):
            # A server that reads them in between keeps what it has, and reads them again two seconds later.
            part = self._folder / f"{name}.part"
            part.unlink(missing_ok=True)
            with os.fdopen(os.open(part, _NEW_FILE, 0o600), "wb") as out:
                out.write(data[name])
            part.replace(self._folder / name)
        self._written = data
        home = Path("/secrets") / self._secret.namespace / self._secret.name
        self.certificate_ends = tuple(
            CertificateEnd(home / name, purpose, first_end(data[name])) for name, purpose in _ENDS.items()
        )
        self.ready.set()


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in data.items()}
    except (binascii.Error, TypeError) as error:
        raise RemoteContractError(f"a value of the Secret is not base64: {error}") from error
