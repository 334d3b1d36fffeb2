"""What a command of ``kubectl inspect`` runs in: screen, way to the API server, and what to do about an error."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from gcushare.cli.inspect.help_text import SUMMARIES, Names
from gcushare.cli.inspect.options import ExplainSettings, TableSettings, TopSettings
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.connection import limits_of, sources_of
from gcushare.cluster.follow import Connection
from gcushare.cluster.settings import ClusterFlags
from gcushare.cluster.snapshot import Source
from gcushare.core.errors import ConfigError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig, load_config
from gcushare.kube.errors import UnauthorizedError
from gcushare.kube.resources import NODES
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.vendors.vendor import Vendor

T = TypeVar("T", bound=TableSettings | ExplainSettings | TopSettings)

MAX_WARNINGS = 10
RIGHTS = (
    "get and list nodes and pods, get services/proxy in kube-system for the extender's figures, get pods/proxy for top"
)


@dataclass(frozen=True, slots=True)
class Session:
    """What every command works with. ``servers`` takes the API server's address once it is known, for hints."""

    vendor: Vendor
    screen: Screen
    servers: list[str]

    @asynccontextmanager
    async def connect(self, flags: ClusterFlags, connection: Connection | None = None) -> AsyncIterator[KubeClient]:
        """Open the API server that the flags name."""
        config: KubeConfig = load_config(sources_of(flags, self.screen.environ))
        self.servers.append(config.server)
        observer = connection.observe if connection is not None else None
        async with KubeClient(config, program="kubectl-inspect", limits=limits_of(flags), observer=observer) as api:
            yield api

    def tell_source(self, source: Source) -> None:
        """Say whose figures were shown."""
        if source.passed_over:
            self.screen.say("note", source.passed_over)
        self.screen.say("source", source.words)


def run(
    names: Names,
    act: Callable[[Session, T], Awaitable[int]],
    settings: T,
    around: Surroundings,
    hints: list[str],
) -> int:
    """Run a command and return its exit code; where it fails, ``hints`` takes what to do about it.

    Raises:
        GcushareError: what the command raised.
    """

    async def work() -> int:
        session = Session(names.vendor, Screen(around, settings.show.color), [])
        try:
            return await act(session, settings)
        except GcushareError as error:
            if hint := await _hint(names, session, settings, error):
                hints.append(hint)
            raise

    return asyncio.run(work())


def warn(screen: Screen, problems: Sequence[str]) -> int:
    """Tell what could not be read; then not everything that was asked for was shown."""
    for problem in problems[:MAX_WARNINGS]:
        screen.say("warning", problem)
    if len(problems) > MAX_WARNINGS:
        screen.say("warning", f"and {len(problems) - MAX_WARNINGS} more; -o json lists all")
    return FAILED if problems else DONE


async def _hint(
    names: Names, session: Session, settings: TableSettings | ExplainSettings | TopSettings, error: GcushareError
) -> str:
    """Say what to do; for a node that does not exist, which ones were perhaps meant."""
    if not isinstance(error, NotFoundError):
        return hint_for(error, session.servers[-1] if session.servers else "")
    if isinstance(settings, ExplainSettings):
        return "-n names the pod's namespace; 'kubectl get pods -A' lists every pod"
    if settings.node is None:
        return ""
    asked, near = settings.node, []
    # The names are a courtesy: where they cannot be read, the error itself is told without them.
    with contextlib.suppress(GcushareError):
        async with session.connect(settings.at) as api:
            nodes = await api.list_all(NODES)
            near = difflib.get_close_matches(asked, [node.metadata.name for node in nodes], n=3)
    words = difflib.get_close_matches(asked, SUMMARIES, n=1)
    # A word that is further from what was typed than a node's name was hardly meant.
    if near and words and difflib.get_close_matches(asked, [near[0], *words], n=1) == near[:1]:
        words = []
    return near_names_hint(near, [f"{names.command} {word}" for word in words])


def hint_for(error: GcushareError, server: str) -> str:
    """Say what to do; empty where the error itself says it. ``server`` is the API server's address, where known."""
    if isinstance(error, UnauthorizedError):
        return "log in again (the token or certificate is wrong or has expired), or choose another --context or --user"
    if isinstance(error, ForbiddenError):
        return (
            "the line above names the verb and the resource that are missing; this command uses: "
            f"{RIGHTS}. See what you may do with 'kubectl auth can-i --list'"
        )
    if isinstance(error, RetryableError):
        where = f" at {server}" if server else ""
        return f"is the API server{where} up and reachable from here? 'kubectl version' asks the same; see --context"
    if isinstance(error, ConfigError) and isinstance(error.__cause__, ssl.SSLError):
        return "is this the right cluster? --certificate-authority names another authority"
    return ""


def near_names_hint(nodes: Sequence[str], commands: Sequence[str]) -> str:
    """Name the nodes that may have been meant, and the command lines."""
    meant = [f"node {' or '.join(nodes)}"] if nodes else []
    meant += [f"the command '{command}'" for command in commands]
    return f"did you mean {', or '.join(meant)}?" if meant else "'kubectl get nodes' lists every node's name"
