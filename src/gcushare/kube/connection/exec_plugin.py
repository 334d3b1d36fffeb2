"""Credentials from a program in the kubeconfig (``users[].user.exec``), the login method of most clouds.

Source: client.authentication.k8s.io v1 and v1beta1, kind ExecCredential.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.kube.clock import Clock
from gcushare.kube.connection.credentials import load_client_certificate
from gcushare.wire.untrusted_json import BoundedJsonDecoder

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_TIMEOUT_S = 120.0
"""Longest wait for the program. One that opens a browser waits for a person."""

_EARLY = timedelta(seconds=60)
"""Credentials are renewed this long before they expire, so that none expires during a request."""


class EnvEntry(msgspec.Struct, frozen=True):
    """A variable that the kubeconfig sets for the program."""

    name: str = ""
    value: str = ""


class ExecSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The program and its arguments."""

    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[EnvEntry, ...] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"


class _CredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _CredentialStatus


CREDENTIAL = BoundedJsonDecoder(_Credential, "an ExecCredential", limit_bytes=1024 * 1024)


@dataclass(slots=True, repr=False, eq=False)
class ExecCredentials:
    """Runs the program if there is no credential, if it is about to expire, or if the server refused it.

    A client certificate from the program is loaded into ``tls`` and used by new connections; see ``generation``.
    ``where`` names its user in messages, relative commands start at ``directory``, and ``cluster`` is passed on to it.
    """

    spec: ExecSpec
    clock: Clock
    where: str
    directory: Path
    cluster: Mapping[str, Any]
    tls: ssl.SSLContext | None
    generation: int = 0
    _answer: _CredentialStatus | None = None
    _certificate: tuple[str, str] | None = None
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        if self.spec.api_version not in API_VERSIONS:
            raise ConfigError(
                f"{self.where}: exec apiVersion {self.spec.api_version!r} is not known, accepted: "
                f"{', '.join(API_VERSIONS)}"
            )

    @property
    def _shown(self) -> str:
        return f"{self.where}: credential program {self.spec.command!r}"

    async def header(self) -> str | None:
        """Return the current credential's header. Runs the program first if needed; callers share one run."""
        async with self._running:
            if self._answer is not None:
                expiry = self._answer.expiration_timestamp
                if expiry is not None and expiry <= self.clock.now() + _EARLY:
                    self._answer = None
            if self._answer is None:
                self._answer = await self._ask()
            return self._header(self._answer)

    def reject(self, header: str | None) -> None:
        """Run the program again next time, unless it has run since ``header`` was sent."""
        if self._answer is not None and self._header(self._answer) == header:
            self._answer = None

    @staticmethod
    def _header(answer: _CredentialStatus) -> str | None:
        return None if answer.token is None else f"Bearer {answer.token}"

    async def _ask(self) -> _CredentialStatus:
        answer = self._parse(await self._run())
        if answer.client_certificate_data and answer.client_key_data:
            if self.tls is None:
                raise ConfigError(
                    f"{self._shown} answered with a client certificate, but the server's address is not https"
                )
            certificate = (answer.client_certificate_data, answer.client_key_data)
            if certificate != self._certificate:
                load_client_certificate(self.tls, certificate[0].encode(), certificate[1].encode(), self._shown)
                self._certificate = certificate
                self.generation += 1
        elif answer.token is None:
            raise ConfigError(f"{self._shown} answered with neither a token nor a client certificate and its key")
        return answer

    def _parse(self, output: bytes) -> _CredentialStatus:
        try:
            credential = CREDENTIAL.read(output)
        except RemoteContractError as error:
            # The error has a position and a type, never the token.
            raise ConfigError(f"{self._shown} printed no ExecCredential: {error}") from error
        if credential.kind != "ExecCredential" or credential.api_version != self.spec.api_version:
            raise ConfigError(
                f"{self._shown} answered kind {credential.kind!r} of {credential.api_version!r}, "
                f"expected 'ExecCredential' of {self.spec.api_version!r}"
            )
        return credential.status

    async def _run(self) -> bytes:
        # As in kubectl, a plain name is searched in PATH; a path with a slash is relative to its kubeconfig.
        is_interactive = self.spec.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self.spec.interactive_mode == "Always" and not is_interactive:
            raise ConfigError(
                f"{self._shown} asks questions (interactiveMode: Always), but standard input is no terminal; "
                "run this in one, or use a login method that asks none"
            )
        command = self.spec.command
        command = str(self.directory.absolute() / command) if "/" in command else command
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *(self.spec.args or ()),
                env=self._environment(is_interactive),
                stdin=sys.stdin if is_interactive else DEVNULL,
                stdout=PIPE,
                # Standard error is ours: a login page or a code is read while the program waits. With a session of its
                # own it ends together with its children; but in one it could not ask at the terminal.
                start_new_session=not is_interactive,
            )
        except OSError as error:
            hint = f"; {self.spec.install_hint.strip()}" if self.spec.install_hint else ""
            raise ConfigError(f"{self._shown} cannot be run: {error.strerror or error}{hint}") from error
        output = None
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise ConfigError(f"{self._shown} did not answer within {PLUGIN_TIMEOUT_S:.0f} s") from error
        finally:
            if output is None:
                with suppress(ProcessLookupError):  # it ended meanwhile
                    process.kill() if is_interactive else os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode != 0:
            raise ConfigError(f"{self._shown} ended with status {process.returncode}; what it wrote stands above")
        return output

    def _environment(self, is_interactive: bool) -> dict[str, str]:
        info: dict[str, Any] = {"interactive": is_interactive}
        if self.spec.provide_cluster_info:
            info["cluster"] = self.cluster
        document = {"apiVersion": self.spec.api_version, "kind": "ExecCredential", "spec": info}
        extra = {each.name: each.value for each in self.spec.env or ()}
        return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": msgspec.json.encode(document).decode()}
