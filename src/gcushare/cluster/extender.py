"""The scheduler extender, asked through the API server's proxy or at an address, and what it counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from urllib.parse import quote

import msgspec

from gcushare.cluster.cluster_flags import SourceFlags
from gcushare.cluster.programs import ProgramAddress, named_service
from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts, PodFacts
from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.cards import SERVES_MEMORY, Health, InventoryCard
from gcushare.core.errors import RemoteContractError, RetryableError
from gcushare.core.nodes import NodeState
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.vendors import Vendor
from gcushare.wire.documents.explain import EXPLANATION, ExplainDocument
from gcushare.wire.documents.inspect import NodePart, decode_document

QUICK_S = 1.0
"""How long to wait for the extender if the API server can answer instead; it answers in milliseconds."""


@dataclass(frozen=True, slots=True)
class ExtenderClient:
    """The extender as one vendor's pods see it. ``endpoints`` are tried in turn until one answers.

    Its methods raise ``GcushareError`` if it does not answer, or not with its document. If it serves other vendors, its
    own answer names them and the flag that adds this one.
    """

    vendor: Vendor
    text: str
    endpoints: tuple[ProgramAddress, ...]
    timeout_s: float | None = None

    async def inspect(self, node: str | None) -> list[NodePart]:
        """Fetch who uses what, everywhere or on one node."""
        path = "/inspect" if node is None else f"/inspect/{quote(node, safe='')}"
        return decode_document(await self._ask(path))

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Fetch why a pod has no card, or which it has; ``NotFoundError`` if no such pod asks for cards."""
        return EXPLANATION.read(await self._ask(f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}"))

    async def _ask(self, path: str) -> bytes:
        page = f"{self.vendor.url_prefix}{path}"
        *first, last = self.endpoints
        for endpoint in first:
            try:
                return await endpoint.get(page, timeout_s=self.timeout_s)
            except (RetryableError, RemoteContractError) as error:
                # It may speak TLS, as the next endpoint does; but then it would have closed the connection at once.
                if isinstance(error.__cause__, TimeoutError):
                    raise
        return await last.get(page, timeout_s=self.timeout_s)


@asynccontextmanager
async def open_extender(
    flags: SourceFlags, vendor: Vendor, api: KubeClient, *, timeout_s: float | None
) -> AsyncIterator[ExtenderClient]:
    """Yield the way to the extender; nothing is asked yet."""
    if flags.extender_url is not None:
        config = KubeConfig(server=flags.extender_url.rstrip("/"), source="--extender-url")
        async with KubeClient(config, program="gcushare") as client:
            yield ExtenderClient(
                vendor, f"the scheduler extender at {config.server}", (ProgramAddress(client, ""),), timeout_s
            )
        return
    namespace, _, service = flags.extender_service.partition("/")
    ways = (service,) if service.startswith("https:") else (f"http:{service}", f"https:{service}")
    endpoints = tuple(named_service(api, namespace, way) for way in ways)
    yield ExtenderClient(vendor, f"the scheduler extender ({flags.extender_service})", endpoints, timeout_s)


def adopt_document(snapshot: ClusterSnapshot, nodes: list[NodePart]) -> None:
    """Replace what pods hold in a snapshot of nodes and pods by what the extender counts.

    Cards' details and units are those of the Node objects. A node that the extender does not know is removed and
    reported as a problem.
    """
    by_name = {(facts.node, facts.ref.namespace, facts.ref.name): facts.ref for facts in snapshot.pods.values()}
    shown = {node.name: node for node in nodes if not snapshot.is_partial or node.name in snapshot.node_facts}
    ledger = snapshot.ledger
    for held in list(ledger.assignments()):
        ledger.forget(held.pod.uid)
    for node in shown.values():
        known = ledger.nodes.get(node.name)
        ledger.set_node(
            node.name,
            _cards_of(node, known),
            known.unit if known is not None else None,
            known.modes if known is not None else (SERVES_MEMORY,),
        )
        snapshot.node_facts.setdefault(node.name, NodeFacts(name=node.name))
        for assignment in _assignments_of(node, by_name):
            ledger.apply(_completed(assignment, snapshot.pods.get(assignment.pod.uid)))
    for name in sorted(snapshot.node_facts.keys() - shown.keys()):
        if not snapshot.node_facts[name].problem:
            snapshot.problems.append(f"node {name} is not known to the scheduler extender (yet?): left out")
            snapshot.node_deleted(name)


def _cards_of(node: NodePart, known: NodeState | None) -> list[InventoryCard]:
    cards = []
    for device in node.cards:
        state = known.cards.get(device.id) if known is not None else None
        reported = state.card if state is not None else None
        if reported is None and not device.total:
            continue  # pods name a card that the node does not have; the ledger will know it from them
        plain = reported or InventoryCard(index=device.id, uuid="", memory_bytes=0)
        cards.append(
            msgspec.structs.replace(
                plain,
                units=device.total,
                health=Health.HEALTHY if device.health == Health.HEALTHY.value else Health.UNHEALTHY,
                cordoned=device.cordoned or plain.cordoned,
                closures=device.closed,
            )
        )
    return cards


def _assignments_of(node: NodePart, by_name: dict[tuple[str, str, str], PodRef]) -> list[Assignment]:
    grants: dict[PodRef, list[CardGrant]] = defaultdict(list)
    limits: dict[PodRef, int] = {}
    unrecorded: set[PodRef] = set()
    for device in node.cards:
        for pod in device.pods or []:
            name = (pod.namespace, pod.name)
            # Upstream gpushare's form has no uid.
            here = (node.name, *name)
            ref = by_name.get(here) or by_name.get(("", *name)) or PodRef("/".join(here), *name)
            if pod.uid:
                ref = PodRef(pod.uid, *name, pod.create_time)
            grants[ref].append(CardGrant(device.id, pod.used, pod.whole))
            limits[ref] = pod.limit
            if pod.unrecorded:
                unrecorded.add(ref)
    held = [
        Assignment(ref, node.name, tuple(given), unrecorded=ref in unrecorded, limit=limits[ref])
        for ref, given in grants.items()
    ]
    unknown = (PodRef(pod.uid, pod.namespace, pod.name) for pod in node.unknown_cards)
    return [*held, *(Assignment(ref, node.name, ()) for ref in unknown)]


def _completed(assignment: Assignment, facts: PodFacts | None) -> Assignment:
    """Add what the document leaves out, and the figures of free room need, from the pod's own object if it was read.

    A pod that may not be read counts as confirmed, as all but those of the last seconds are.
    """
    is_unconfirmed = facts is not None and facts.is_unconfirmed
    unplaced = facts.unplaced if facts is not None and not assignment.grants else 0
    return replace(assignment, assigned=not is_unconfirmed, unplaced=unplaced)
