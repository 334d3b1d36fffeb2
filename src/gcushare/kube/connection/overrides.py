"""Flags that replace parts of a kubeconfig, with the names of kubectl's own flags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from gcushare.core.errors import ConfigError
from gcushare.kube.connection.kubeconfig import Cluster, Context, Kubeconfig, Placed, User, known_names

_BY_FLAGS = "flags"
"""The context's name in messages if only flags name the server."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Parts of a kubeconfig that flags replace; None keeps the file's. Paths are relative to the working directory."""

    cluster: str | None = None
    user: str | None = None
    server: str | None = None
    tls_server_name: str | None = None
    certificate_authority: Path | None = None
    insecure_skip_tls_verify: bool = False
    token: str | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        if self.impersonate is None:
            return ()
        return (
            ("Impersonate-User", self.impersonate),
            *(("Impersonate-Group", each) for each in self.impersonate_groups),
        )


NO_OVERRIDES = Overrides()


def no_kubeconfig(folder: Path) -> Kubeconfig:
    """An empty kubeconfig, for flags that name a server."""
    return Kubeconfig(files=(folder / "(no kubeconfig)",), current_context="", clusters={}, users={}, contexts={})


def override(config: Kubeconfig, context: str | None, wanted: Overrides) -> Kubeconfig:
    """Apply the overrides to the chosen context.

    Raises:
        ConfigError: impersonated groups are given without a user.
    """
    if wanted.impersonate_groups and wanted.impersonate is None:
        raise ConfigError("--as-group needs --as: name the user to impersonate")
    if wanted == NO_OVERRIDES:
        return config
    name = context or config.current_context or (_BY_FLAGS if wanted.server or wanted.cluster else "")
    if not name or (name not in config.contexts and name != _BY_FLAGS):
        return config  # ``resolve_context`` reports the error
    before = config.contexts.get(name, Placed(Context(), config.files[0]))
    chosen = msgspec.structs.replace(
        before.value,
        cluster=wanted.cluster or before.value.cluster or _BY_FLAGS,
        user=wanted.user or before.value.user or _BY_FLAGS,
    )
    if wanted.user is not None and wanted.user not in config.users:
        raise ConfigError(f"user {wanted.user!r} is not in {config.shown}; known: {known_names(config.users)}")
    return replace(
        config,
        current_context=config.current_context or name,
        contexts={**config.contexts, name: Placed(chosen, before.file)},
        clusters=_with_cluster(config, chosen.cluster, wanted),
        users=_with_user(config, chosen.user or _BY_FLAGS, wanted),
    )


def _with_cluster(config: Kubeconfig, name: str, wanted: Overrides) -> dict[str, Placed[Cluster]]:
    placed = config.clusters.get(name)
    if placed is None:
        if wanted.server is None or wanted.cluster is not None:
            return config.clusters  # ``resolve_context`` reports the error
        placed = Placed(Cluster(), config.files[0])
    changes: dict[str, Any] = {}
    if wanted.server is not None:
        changes["server"] = wanted.server
    if wanted.tls_server_name is not None:
        changes["tls_server_name"] = wanted.tls_server_name
    if wanted.certificate_authority is not None:
        changes |= _file("certificate_authority", wanted.certificate_authority)
    if wanted.insecure_skip_tls_verify:
        no_authority = {"certificate_authority": None, "certificate_authority_data": None}
        changes |= {"insecure_skip_tls_verify": True, **no_authority}
    return {**config.clusters, name: Placed(msgspec.structs.replace(placed.value, **changes), placed.file)}


def _with_user(config: Kubeconfig, name: str, wanted: Overrides) -> dict[str, Placed[User]]:
    placed = config.users.get(name, Placed(User(), config.files[0]))
    changes: dict[str, Any] = {}
    if wanted.token is not None:
        changes |= {"token": wanted.token, "token_file": None}
    if wanted.client_certificate is not None:
        changes |= _file("client_certificate", wanted.client_certificate)
    if wanted.client_key is not None:
        changes |= _file("client_key", wanted.client_key)
    return {**config.users, name: Placed(msgspec.structs.replace(placed.value, **changes), placed.file)}


def _file(key: str, path: Path) -> dict[str, str | None]:
    return {key: str(path.absolute()), f"{key}_data": None}
