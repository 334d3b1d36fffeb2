"""Close the first port to the scheduler once every node's scheduler calls over mutual TLS.

On an upgrade the config-managers move one scheduler after another. Until the last one has reported, the first port
answers those that were not moved yet. In a cluster that begins with mutual TLS it never answers them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from gcushare.core.errors import ForbiddenError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.resources import CONFIG_MAPS
from gcushare.runtime.http.scheduler_fast_path import FastPathHandler, Verb
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import ObjectName
from gcushare.wire.contracts import VERBS_PORT, Calls
from gcushare.wire.documents.node_report import decode_node_reports
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

_CHECK_EVERY_S = 10.0
_MOVED = frozenset({Calls.MUTUAL_TLS.value, Calls.NONE.value})


class NodeNames:
    """The names of all nodes, from the watch. Reports of nodes that are gone do not count."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def on_node_update(self, node: Node) -> None:
        """Add a node."""
        self._names.add(node.metadata.name)

    def on_node_delete(self, name: str) -> None:
        """Remove a node that is gone."""
        self._names.discard(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names


class FirstPort:
    """Whether the first port answers the scheduler too."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open

    def guard(self, verbs: Sequence[Verb]) -> list[Verb]:
        """Make every verb check first whether the port is open."""

        def ask(answer: FastPathHandler, body: bytes) -> bytes | Awaitable[bytes]:
            if not self.is_open:
                raise ForbiddenError(
                    f"the scheduler's calls are answered over mutual TLS on port {VERBS_PORT} alone; "
                    "a scheduler that cannot needs scheduler.verbs=plain, see docs/security.md"
                )
            return answer(body)

        return [replace(verb, answer=partial(ask, verb.answer)) for verb in verbs]


class MovingNodes:
    """Keeps the first port open until every node has moved; ``run`` it in a task of its own."""

    def __init__(
        self,
        client: KubeClient,
        reports: ObjectName,
        nodes: NodeNames,
        port: FirstPort,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._reports = reports
        self._nodes = nodes
        self._port = port
        self._clock = clock or SystemClock()
        self._waits_for: tuple[str, ...] = ()
        self._problem = ""

    async def run(self, synced: Callable[[], Awaitable[None]]) -> None:
        """Check until cancelled, from when ``synced`` returns: then all nodes are known."""
        await synced()
        while True:
            await self.check()
            await self._clock.sleep(_CHECK_EVERY_S)

    async def check(self) -> None:
        """Check once. If the reports cannot be read, nothing changes."""
        try:
            name = self._reports
            found = await self._client.get(CONFIG_MAPS, name.name, namespace=name.namespace)
        except NotFoundError:
            found = {}
        except GcushareError as error:
            if str(error) != self._problem:
                logger.warning("reports of nodes not read %s", fields(config_map=self._reports, reason=error))
            self._problem = str(error)
            return
        self._problem = ""
        reports = decode_node_reports(found.get("data") or {})
        waits_for = tuple(each.node for each in reports if each.node in self._nodes and each.calls not in _MOVED)
        if waits_for != self._waits_for:
            logger.info("schedulers that do not call over mutual TLS %s", fields(nodes=", ".join(waits_for) or "none"))
        self._waits_for = waits_for
        self._port.is_open = bool(waits_for)
