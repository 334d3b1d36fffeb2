"""Keeps the certificates of both sides in one Secret: fills it, renews what is due, and lays this side's files out.

Every replica does so. None has to lead for it: a write carries the version of the Secret that it was decided on, and
of several replicas one is the first. The chart makes the Secret, empty: a right to create Secrets would be one to make
tokens of other service accounts, and creating cannot be limited by name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gcushare.core.errors import ConflictError, GcushareError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Resource
from gcushare.runtime.http.tls import CertificateEnd, Purpose, TlsFiles
from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.scheduler_extender.mutual_tls.settings import ObjectName
from gcushare.wire.certificates import first_end
from gcushare.wire.contracts import CA, CLIENT_CERT, SERVER_CERT, SERVER_KEY

log = logging.getLogger(__name__)

SECRETS: Resource[dict[str, Any]] = Resource("api/v1", "secrets", dict)

_LOOK_EVERY_S = 60.0
_AGAIN_S = 2.0
"""After a failure, or where another replica wrote first."""
_ENDS = {SERVER_CERT: Purpose.SERVER, CA: Purpose.CLIENT_CA, CLIENT_CERT: Purpose.CLIENT}


class CertificateKeeper:
    """``run`` it in a task of its own; ``ready`` is set once ``files`` are there, in ``folder``."""

    def __init__(
        self, client: KubeClient, secret: ObjectName, terms: Terms, folder: Path, *, clock: Clock | None = None
    ) -> None:
        self._client = client
        self._secret = secret
        self._terms = terms
        self._folder = SwappedFolder(folder)
        self._clock = clock or SystemClock()
        self._shown: Mapping[str, bytes] = {}
        self._problem = ""
        self.ready = asyncio.Event()
        self.certificate_ends: tuple[CertificateEnd, ...] = ()
        """When what the Secret holds ends, for metrics; the scheduler's certificate among it."""
        file = self._folder.file
        self.files = TlsFiles(file(SERVER_CERT), file(SERVER_KEY), file(CA), requires_client=True)

    @property
    def obstacle(self) -> str | None:
        """Why there are no certificates yet, for readiness; None once there are."""
        if self.ready.is_set():
            return None
        return f"no certificates for the scheduler's calls yet: {self._problem or 'being made'}"

    async def run(self) -> None:
        """Look after the Secret until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_EVERY_S if await self.look() else _AGAIN_S)

    async def look(self) -> bool:
        """Look once; False where that has to be done again soon."""
        try:
            self._lay_out(await self._kept())
        except ConflictError:
            return False
        except (GcushareError, OSError) as error:  # OSError: a full disk keeps what it has, and is tried again.
            if str(error) != self._problem:
                log.warning("certificate check failed %s", fields(secret=self._secret, reason=error))
            self._problem = str(error)
            return False
        self._problem = ""
        return True

    async def _kept(self) -> Mapping[str, bytes]:
        """Read the Secret, and write what is due.

        Raises:
            ConflictError: another replica wrote it meanwhile.
            GcushareError: it is not there, or not to be read or written.
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
        log.info("certificates made %s", fields(secret=self._secret, reason=issue.reason))
        return issue.data

    def _lay_out(self, data: Mapping[str, bytes]) -> None:
        if data == self._shown:
            return
        self._folder.put({name: data[name] for name in (SERVER_CERT, SERVER_KEY, CA)})
        self._shown = data
        home = Path("/secrets") / self._secret.namespace / self._secret.name
        self.certificate_ends = tuple(
            CertificateEnd(home / name, purpose, first_end(data[name])) for name, purpose in _ENDS.items()
        )
        self.ready.set()


def _decoded(data: Mapping[str, str]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in data.items()}
    except (binascii.Error, TypeError) as error:
        raise RemoteContractError(f"a value of the Secret is no base64: {error}") from error


_NOW = "..data"
"""The link that is renamed over; a server that follows its files looks for changes beside it."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SwappedFolder:
    """``path`` must be a folder that no other user can read: it holds private keys."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def file(self, name: str) -> Path:
        """Where a file of that name is, once it was put there."""
        return self._path / name

    def put(self, files: Mapping[str, bytes]) -> None:
        """Replace all the files in one step; no reader sees the certificate of one set with the key of another.

        Cut off at any point, by a full disk say, it leaves the files as they were; the next one removes what it left.
        """
        self._count += 1
        home = self._path / f"..{self._count}"
        home.mkdir(mode=0o700)
        for name, content in files.items():
            with os.fdopen(os.open(home / name, _NEW_FILE, 0o600), "wb") as out:
                out.write(content)
            if not (link := self._path / name).is_symlink():
                link.symlink_to(Path(_NOW) / name)
        now, following = self._path / _NOW, self._path / f"{_NOW}.next"
        following.unlink(missing_ok=True)
        following.symlink_to(home.name)
        following.replace(now)
        for each in self._path.iterdir():
            if each.is_dir() and not each.is_symlink() and each != home:
                shutil.rmtree(each)
