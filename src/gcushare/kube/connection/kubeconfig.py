"""Reads kubeconfig files, merges them as kubectl does, and resolves a context to its cluster and user.

The rules: the first file that defines a name (or the current context) wins. Relative paths start at the file that
contains them. Data takes precedence over a path. Missing files of a list are skipped. Nothing here opens a connection,
and messages contain no values of a user. ``config`` makes credentials and TLS of what is found.

We do not use kubernetes_asyncio's loader: it imports the generated client, which takes ten times as long as this module
(1.3 s instead of 0.15 s on a busy machine), for every command.

Source: kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.kube.connection.exec_plugin import ExecSpec
from gcushare.wire.untrusted_json import read_bounded
from gcushare.wire.untrusted_yaml import MAX_YAML_BYTES, load_as


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """The address of an API server and how to verify it."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: tuple[dict[str, Any], ...] = ()


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """A user's credentials."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    as_uid: str | None = None
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    exec: ExecSpec | None = None
    auth_provider: dict[str, Any] | None = None


class Context(msgspec.Struct, frozen=True, rename="kebab"):
    """A named pair of cluster and user."""

    cluster: str = ""
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: User = User()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: Context = Context()


class _KubeconfigFile(msgspec.Struct, frozen=True, rename="kebab"):
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    current_context: str | None = None


E = TypeVar("E", Cluster, User, Context)


@dataclass(frozen=True, slots=True)
class Placed(Generic[E]):
    """An entry and its file."""

    value: E
    file: Path


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The merged files of one list."""

    shown: str
    """Their names, for messages."""
    current_context: str
    clusters: dict[str, Placed[Cluster]]
    users: dict[str, Placed[User]]
    contexts: dict[str, Placed[Context]]


@dataclass(frozen=True, slots=True)
class ResolvedContext:
    """The parts of one context. ``where`` names the file and the context in messages."""

    where: str
    cluster: Placed[Cluster]
    user: Placed[User]
    namespace: str
    user_name: str


def read_kubeconfig(paths: Sequence[Path]) -> Kubeconfig:
    """Read and merge the files of a list.

    Raises:
        ConfigError: none of them exists, or one cannot be read or is not a kubeconfig.
    """
    documents = [(path, _read_document(path)) for path in paths if is_there(path)]
    if not documents:
        raise ConfigError(f"no kubeconfig found at {':'.join(map(str, paths))!r}: name an existing file")
    last_first = documents[::-1]  # so that the first file's entries replace those of later ones
    return Kubeconfig(
        shown=":".join(str(path) for path, _ in documents),
        current_context=next((doc.current_context for _, doc in documents if doc.current_context), ""),
        clusters={e.name: Placed(e.cluster, path) for path, doc in last_first for e in doc.clusters or ()},
        users={e.name: Placed(e.user, path) for path, doc in last_first for e in doc.users or ()},
        contexts={e.name: Placed(e.context, path) for path, doc in last_first for e in doc.contexts or ()},
    )


def is_there(path: Path) -> bool:
    """Whether a file exists. One that may not be looked at does: reading it then says why it cannot be used."""
    try:
        return path.exists()
    except OSError:
        return True


def resolve_context(config: Kubeconfig, context: str | None) -> ResolvedContext:
    """Find a context's cluster and user; None means the current context.

    Raises:
        ConfigError: the context, or what it refers to, does not exist; the message lists the existing names.
    """
    name = context or config.current_context
    if not name:
        known = known_names(config.contexts)
        advice = f"give --context, one of {known}" if config.contexts else "it has no contexts, so name another file"
        raise ConfigError(f"{config.shown} sets no current-context: {advice}")
    entry = _find("context", name, config.contexts, config)
    chosen = entry.value
    cluster = _find("cluster", chosen.cluster, config.clusters, config)
    if not cluster.value.server:
        raise ConfigError(f"cluster {chosen.cluster!r} in {cluster.file} names no server")
    # As in kubectl, a context without a user, or with an undefined user, is anonymous.
    user = config.users.get(chosen.user or "", Placed(User(), entry.file))
    where = f"{entry.file} (context {name!r})"
    return ResolvedContext(where, cluster, user, chosen.namespace or "default", chosen.user or "")


def _find(kind: str, name: str, entries: dict[str, Placed[E]], config: Kubeconfig) -> Placed[E]:
    found = entries.get(name)
    if found is None:
        raise ConfigError(f"{kind} {name!r} is not in {config.shown}; known: {known_names(entries)}")
    return found


def known_names(entries: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(entries)) or "none"


def _read_document(path: Path) -> _KubeconfigFile:
    what = f"kubeconfig {str(path)!r}"
    try:
        with path.open("rb") as file:
            text = read_bounded(file, MAX_YAML_BYTES, what).decode()
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {what}: not UTF-8 at byte {error.start}") from error
    except RemoteContractError as error:
        raise ConfigError(str(error)) from error
    return parse_kubeconfig(text, what)


def parse_kubeconfig(text: str, what: str) -> _KubeconfigFile:
    """Read one file's text.

    Raises:
        ConfigError: it is not a kubeconfig. The text is not quoted, because it may be a token.
    """
    try:
        return load_as(_KubeconfigFile, text, what)
    except RemoteContractError as error:
        raise ConfigError(str(error)) from None
