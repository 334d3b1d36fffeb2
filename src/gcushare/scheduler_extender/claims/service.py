"""The wiring of what the extender does for nodes that serve claims: its watches, its workers and its figures."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gcushare.core.ledger import Ledger
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.events import EventRecorder
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import NAMESPACES, RESOURCE_CLAIM_TEMPLATES, Selector
from gcushare.runtime.metrics import counter, gauge
from gcushare.runtime.shutdown import RootTasks
from gcushare.scheduler_extender.claims.claims_settings import ClaimsSettings
from gcushare.scheduler_extender.claims.node_order import OrderWriter
from gcushare.scheduler_extender.claims.template_keeper import TemplateKeeper
from gcushare.scheduler_extender.claims.template_plan import OWN_LABELS, UNUSED_S, TemplatePlan, trimmed
from gcushare.vendors import Vendor
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL
from gcushare.wire.dra.claims import RESOURCE_CLAIM_TEMPLATE
from gcushare.wire.objects import ObjectHead
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder

NAMESPACE = BoundedJsonDecoder(ObjectHead, "a namespace", limit_bytes=OBJECT_BYTES, max_depth=None)


class ExtenderClaims(Collector):
    """The templates and the order of nodes of one replica. Only the leader writes.

    ``plan`` observes pods, and ``order`` observes nodes. Call ``wake`` when the leader may have changed.
    """

    def __init__(
        self,
        settings: ClaimsSettings,
        vendors: Sequence[Vendor],
        ledgers: Sequence[Ledger],
        client: KubeClient,
        recorder: EventRecorder,
        is_leader: Callable[[], bool],
        *,
        clock: Clock,
        rng: random.Random,
        unused_s: float = UNUSED_S,
    ) -> None:
        self._templates_changed = asyncio.Event()
        units = [(vendor, settings.unit_of(vendor)) for vendor in vendors]
        self.plan = TemplatePlan(units, unused_s, self._templates_changed.set)
        self.keeper = TemplateKeeper(client, self.plan, recorder, self._templates_changed, is_leader, clock, rng)
        self.order = (
            OrderWriter(client, ledgers, is_leader, clock=clock, rng=rng) if settings.claims_node_order else None
        )
        own = ",".join(f"{key}={value}" for key, value in OWN_LABELS.items())
        self.watches: dict[str, Reflector[Any]] = {
            "namespaces": Reflector(
                client,
                NAMESPACES,
                self.plan.namespaces,
                decode=NAMESPACE.read,
                selector=Selector(labels=f"{CLAIMS_LABEL}={CLAIMS_ENABLED}"),
                clock=clock,
                rng=rng,
            ),
            "templates": Reflector(
                client,
                RESOURCE_CLAIM_TEMPLATES,
                self.plan.templates,
                decode=lambda raw: trimmed(RESOURCE_CLAIM_TEMPLATE.read(raw)),
                selector=Selector(labels=own),
                clock=clock,
                rng=rng,
            ),
        }

    def start(self, tasks: RootTasks, pods: Reflector[Any], claims: Reflector[Any]) -> None:
        """Start the watches, and each worker once it knows all that it depends on. ``pods`` are read after nodes."""
        for name, watch in self.watches.items():
            tasks.start(f"watch {name}", watch.run())
        tasks.start("keep templates", self._keep_when_synced([pods, *self.watches.values()]))
        if self.order is not None:
            tasks.start("keep the order of nodes", self.order.run(claims.synced.wait))

    def wake(self) -> None:
        """Look again at what to write."""
        self._templates_changed.set()
        if self.order is not None:
            self.order.wake()

    def collect(self) -> Iterator[Metric]:
        """Yield what /metrics shows, read from the parts' own counters at each scrape."""
        templates = self.keeper.counters
        order = Counter[str]() if self.order is None else self.order.counters
        yield gauge("gcushare_claims_templates", "Templates of gcushare that exist.", (), [((), len(self.plan))])
        writes = {
            "template-created": templates["created"],
            "template-deleted": templates["deleted"],
            "node-order": order["written"],
        }
        failures = {"template": templates["failed"], "node-order": order["failed"]}
        for name, text, counts in (
            ("gcushare_claims_writes", "Writes to the API server, by what was done.", writes),
            ("gcushare_claims_write_failures", "Writes that failed and are tried again.", failures),
        ):
            yield counter(name, text, ("what",), [((what,), count) for what, count in counts.items()])

    async def _keep_when_synced(self, watches: Sequence[Reflector[Any]]) -> None:
        for watch in watches:
            await watch.synced.wait()
        await self.keeper.run()
