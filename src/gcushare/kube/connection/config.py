"""Finds the API server and the credentials for it at start."""

from __future__ import annotations

import base64
import binascii
import os
import pwd
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from gcushare.core.errors import ConfigError
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.connection.credentials import (
    Credentials,
    FixedHeader,
    TokenFile,
    client_context,
    load_client_certificate,
)
from gcushare.kube.connection.exec_plugin import ExecCredentials
from gcushare.kube.connection.kubeconfig import ResolvedContext, is_there, read_kubeconfig, resolve_context

_FOR_PROGRAMS = "client.authentication.k8s.io/exec"
"""The extension of a cluster that is for credential programs. Source: ExecCredential, spec.cluster.config."""

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """An API server, our credentials, and where they were found (``source``, for messages)."""

    server: str
    source: str
    credentials: Credentials = field(default_factory=FixedHeader)
    ssl: ssl.SSLContext | None = None
    namespace: str = "default"
    tls_server_name: str | None = None
    """The name to expect in the server's certificate; None means the host of ``server``."""
    proxy: str | None = field(default=None, repr=False)
    """HTTP proxy. Not in the repr, because it may contain a password."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """The headers by which the API server takes our requests for another user's."""

    @property
    def address(self) -> str:
        """Where requests go and who says so, as a part of a message."""
        return f"the address {self.server} is from {self.source}"


def find_api_server(
    kubeconfig: str | None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    service_account_dir: Path = SERVICE_ACCOUNT_DIR,
    clock: Clock | None = None,
) -> KubeConfig:
    """Find the API server: by a kubeconfig, the pod's service account, ~/.kube/config, in this order.

    The service account comes before the home directory, so that a file in an image's or a node's home never directs a
    program in a pod to another cluster. With a ``context`` the service account is skipped.

    Args:
        kubeconfig: one or more files to merge, as in $KUBECONFIG; None or empty means the other sources.
        context: a context of the kubeconfig; None means its current one.
        environ: None means the process's own environment.
        service_account_dir: where a pod finds it; tests have another.
        clock: for credentials that end; None means the system's.

    Raises:
        ConfigError: nothing was found, or what was found cannot be used.
    """
    environ = os.environ if environ is None else environ
    home, clock = home_directory(environ), clock or SystemClock()
    listed = [Path(each) for each in (kubeconfig or "").split(os.pathsep) if each]
    if listed:
        return _from_kubeconfig(listed, context, home, clock)
    if environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return _from_service_account(service_account_dir, environ)
    default = home / ".kube" / "config"
    if is_there(default):
        return _from_kubeconfig([default], context, home, clock)
    raise ConfigError(
        "no way to the API server found: looked at --kubeconfig, $KUBECONFIG, the pod's service account "
        f"($KUBERNETES_SERVICE_HOST is not set) and {str(default)!r}; give --kubeconfig FILE"
    )


def home_directory(environ: Mapping[str, str]) -> Path:
    """Find the directory for ``~``: $HOME, or the user's in passwd, or / if the user has neither."""
    try:
        return Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir or "/")
    except KeyError:  # a container's numeric user
        return Path("/")


def _from_service_account(folder: Path, environ: Mapping[str, str]) -> KubeConfig:
    where = f"service account in {folder}"
    host = environ["KUBERNETES_SERVICE_HOST"]
    port = environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = folder / "token"
    if not token.exists():
        raise ConfigError(
            f"this is a pod (KUBERNETES_SERVICE_HOST={host!r}), but {str(token)!r} does not exist: "
            "set automountServiceAccountToken: true, or give --kubeconfig FILE"
        )
    authority = _read_file(folder / "ca.crt", where)
    namespace = folder / "namespace"
    address = f"[{host}]" if ":" in host else host
    return KubeConfig(
        server=_require_address(f"https://{address}:{port}", where),
        source=where,
        credentials=TokenFile(token),
        ssl=client_context(authority, where),
        namespace=_read_file(namespace, where).decode().strip() if namespace.exists() else "default",
    )


def _from_kubeconfig(paths: list[Path], context_name: str | None, home: Path, clock: Clock) -> KubeConfig:
    expanded = [home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path for path in paths]
    resolved = resolve_context(read_kubeconfig(expanded), context_name)
    cluster = resolved.cluster.value
    server = _require_address(cluster.server, f"cluster in {resolved.cluster.file}")
    context = _tls(resolved) if server.startswith("https://") else None
    return KubeConfig(
        server=server,
        source=resolved.where,
        credentials=_credentials(resolved, context, clock),
        ssl=context,
        namespace=resolved.namespace,
        tls_server_name=cluster.tls_server_name,
        proxy=_require_proxy(cluster.proxy_url, f"cluster in {resolved.cluster.file}"),
        impersonation=_impersonation(resolved),
    )


def _tls(resolved: ResolvedContext) -> ssl.SSLContext:
    where = resolved.where
    context = client_context(_authority(resolved), where, verify=not resolved.cluster.value.insecure_skip_tls_verify)
    user, user_file = resolved.user.value, resolved.user.file
    certificate = _data_or_file(user.client_certificate_data, user.client_certificate, user_file, where)
    key = _data_or_file(user.client_key_data, user.client_key, user_file, where)
    if (certificate is None) != (key is None):
        raise ConfigError(f"{where}: a client certificate needs its key and the other way round; one is missing")
    if certificate is not None and key is not None:
        load_client_certificate(context, certificate, key, where)
    return context


def _authority(resolved: ResolvedContext) -> bytes | None:
    cluster, file = resolved.cluster.value, resolved.cluster.file
    return _data_or_file(cluster.certificate_authority_data, cluster.certificate_authority, file, resolved.where)


def _credentials(resolved: ResolvedContext, context: ssl.SSLContext | None, clock: Clock) -> Credentials:
    """Choose credentials as kubectl does: a token file, else a token, else a password, else a program.

    Raises:
        ConfigError: the token is malformed, or there is only an ``auth-provider``.
    """
    user, directory = resolved.user.value, resolved.user.file.parent
    where = f"user {resolved.user_name!r} of {resolved.where}"
    if user.token_file:
        return TokenFile(directory / user.token_file)
    if user.token:
        token = user.token.strip()
        if any(not 32 <= ord(char) < 127 for char in token):
            raise ConfigError(f"the token of {where} contains invalid characters (a line break?)")
        return FixedHeader(f"Bearer {token}")
    if user.username:
        pair = base64.b64encode(f"{user.username}:{user.password or ''}".encode()).decode()
        return FixedHeader(f"Basic {pair}")
    if user.exec is not None:
        cluster: dict[str, Any] = {}
        if user.exec.provide_cluster_info:
            cluster = {key: value for key, value in msgspec.to_builtins(resolved.cluster.value).items() if value}
            # As in kubectl, a file is replaced by its contents.
            authority = _authority(resolved) if cluster.pop("certificate-authority", None) else None
            if authority is not None:
                cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
            for each in cluster.pop("extensions", ()):
                if each.get("name") == _FOR_PROGRAMS:
                    cluster["config"] = each.get("extension")
        return ExecCredentials(user.exec, clock, where=where, directory=directory, cluster=cluster, tls=context)
    if user.auth_provider is not None:
        name = user.auth_provider.get("name")
        raise ConfigError(
            f"{where}: auth-provider {name!r} is not supported: use its successor, a credential program under exec, "
            "such as kubelogin or gke-gcloud-auth-plugin"
        )
    return FixedHeader()


def _impersonation(resolved: ResolvedContext) -> tuple[tuple[str, str], ...]:
    """The headers for ``as`` and its companions of a user, as kubectl sends them.

    Raises:
        ConfigError: a value is no text for a header, or a companion stands there without ``as``.
    """
    user = resolved.user.value
    headers = [("Impersonate-User", user.as_ or ""), ("Impersonate-Uid", user.as_uid or "")]
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in sorted(user.as_user_extra.items()):
        headers += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
    found = tuple((name, value) for name, value in headers if value)
    for name, value in found:
        if not (user.as_ and value.isascii() and value.isprintable()):
            raise ConfigError(
                f"user {resolved.user_name!r} of {resolved.where}: {name} {value[:80]!r} cannot be sent: write 'as' "
                "with a user's name, and visible ASCII characters"
            )
    return found


def _data_or_file(data: str | None, file: str | None, base: Path, where: str) -> bytes | None:
    if data:
        try:
            # Line breaks are no part of it: people write it as a block.
            return base64.b64decode(data.replace("\n", "").replace("\r", ""), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{where}: certificate or key data is not base64: {error}") from error
    return _read_file(base.parent / file, where) if file else None


def _read_file(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: cannot read {str(path)!r}: {error.strerror or error}") from error


def _require_proxy(proxy: str | None, where: str) -> str | None:
    """Check a proxy's address; None for none.

    Raises:
        ConfigError: it is not an address of an HTTP proxy. A password in it is not quoted.
    """
    try:
        parts = urlsplit(proxy or "")
        if not proxy or (parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0):
            return proxy or None
        shown = f"{parts.scheme}:" if parts.scheme else "its value"
    except ValueError:
        shown = "its value"
    raise ConfigError(
        f"{where}: proxy-url: {shown} is not accepted: expected 'http://host:port' or 'https://host:port'"
    )


def _require_address(server: str, where: str) -> str:
    """Check an address and remove a trailing slash.

    Raises:
        ConfigError: it is not an address of an API server. A password in it is not quoted.
    """
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ConfigError(f"{where}: {server!r} is not an address: expected 'https://host:port'") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{where}: an address with a user name inside is not accepted: expected 'https://host:port'")
    if not usable or parts.query or parts.fragment:
        raise ConfigError(f"{where}: {server!r} is not an address of an API server: expected 'https://host:port'")
    return server.rstrip("/")
