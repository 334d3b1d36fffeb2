"""What Cluster Autoscaler has to know of nodes with cards, written on the Nodes by the replica that leads.

Cluster Autoscaler adds up a node's units. So it evicts a pod whose units no card elsewhere has free in one piece, and
removes the pod's node. A node whose cards pods hold gets the annotation that keeps it from scale-down; a node that is
idle, or not ready, loses it. An admin's own annotation stays, whatever its value: ours has a mark with it, which names
the vendors whose cards are held, as each may have an extender of its own.

A node group may start its nodes with a taint, so that Cluster Autoscaler waits for their cards in place of adding more
nodes. It is removed once the cards are offered.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind, Precondition, annotations_patch
from gcushare.kube.resources import NODES
from gcushare.kube.write_rate import TokenBucket
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED, STARTUP_TAINT
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

_WRITES_PER_S = 20.0
_BURST = 100
_SETTLE_S = 0.1
"""How long changes are collected, so that the answer to a write and its watch event are one change."""
_WRITE_S = 5.0
_TRUE = "true"
_VENDOR_NAMES = frozenset(vendor.name for vendor in VENDORS)


@dataclass(frozen=True, slots=True)
class SeenNode:
    """What is read of a Node. ``disabled`` and ``mark`` are the annotations' values.

    ``taint`` is the index of the startup taint among its taints, None without it.
    """

    is_ready: bool
    disabled: str | None
    mark: str | None
    taint: int | None
    counted: frozenset[str]
    """Resources with something allocatable."""

    @classmethod
    def of(cls, node: Node, resources: Iterable[str]) -> SeenNode:
        annotations, allocatable = node.metadata.annotations, node.status.allocatable
        return cls(
            is_ready=node.is_ready,
            disabled=annotations.get(SCALE_DOWN_DISABLED),
            mark=annotations.get(KEPT_MARK),
            taint=next((at for at, taint in enumerate(node.spec.taints) if taint.key == STARTUP_TAINT), None),
            counted=frozenset(name for name in resources if allocatable.get(name, "0") != "0"),
        )

    def plan_annotations(self, held: Mapping[str, bool]) -> Mapping[str, str | None]:
        """The annotations to write; None removes one. A node that is not ready is left to the autoscaler's rules.

        ``held``: by the names of our vendors, whether their cards are held. Of other vendors the mark says it.
        """
        if self.mark is None and self.disabled is not None:
            return {}
        keeping = _VENDOR_NAMES.intersection((self.mark or "").split(",")) - held.keys()
        if self.is_ready:
            keeping |= {name for name, is_held in held.items() if is_held}
        if self.disabled not in (None, _TRUE):  # It has become an admin's.
            return {KEPT_MARK: None}
        wanted = {SCALE_DOWN_DISABLED: _TRUE if keeping else None, KEPT_MARK: ",".join(sorted(keeping)) or None}
        now = {SCALE_DOWN_DISABLED: self.disabled, KEPT_MARK: self.mark}
        return {key: value for key, value in wanted.items() if value != now[key]}

    def offers(self, node: NodeState, vendor: Vendor) -> bool:
        """Whether pods can be placed on its cards: they are known, and the kubelet counts their resource."""
        if not node.known or not node.cards:
            return False
        wanted = {SERVES_MEMORY: vendor.memory_resource, SERVES_WHOLE: vendor.whole_card_resource}
        return node.serves_claims or any(wanted[mode] in self.counted for mode in node.modes if mode in wanted)


def is_held(node: NodeState | None) -> bool:
    """Whether pods or claims hold cards of a node whose cards are known."""
    return node is not None and node.known and bool(node.assignments)


class AutoscalingWriter:
    """Observes nodes and the ledgers of ``states``, and writes while ``is_leader`` says so.

    Call ``wake`` when the leader may have changed.
    """

    def __init__(
        self,
        client: KubeClient,
        states: Iterable[VendorState],
        is_leader: Callable[[], bool],
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._states = tuple(states)
        self._is_leader = is_leader
        self._clock = clock
        self._bucket = TokenBucket(_WRITES_PER_S, _BURST, clock)
        self._backoff = Backoff(BackoffPolicy(first_s=0.5), rng)
        vendors = [state.vendor for state in self._states]
        self._resources = [name for each in vendors for name in (each.memory_resource, each.whole_card_resource)]
        self._seen: dict[str, SeenNode] = {}
        self._versions: dict[str, str] = {}
        self._to_look_at: set[str] = set()
        self._changed = asyncio.Event()
        for state in self._states:
            state.ledger.listen(lambda node: self._look_at(node.name))

    def node_applied(self, node: Node) -> None:
        """Use a Node's newest state."""
        name, seen = node.metadata.name, SeenNode.of(node, self._resources)
        self._versions[name] = node.metadata.resource_version
        if self._seen.get(name) != seen:
            self._seen[name] = seen
            self._look_at(name)

    def node_deleted(self, name: str) -> None:
        """Forget a node that is gone."""
        self._seen.pop(name, None)
        self._versions.pop(name, None)

    def wake(self) -> None:
        """Look at every node again."""
        self._to_look_at.update(self._seen)
        self._changed.set()

    def _look_at(self, name: str) -> None:
        self._to_look_at.add(name)
        self._changed.set()

    async def run(self, complete: Callable[[], Awaitable[None]]) -> None:
        """Write until cancelled. ``complete`` waits until nodes, pods and claims are read: before, nodes seem idle."""
        while True:
            await complete()
            await self._changed.wait()
            await self._clock.sleep(_SETTLE_S)
            self._changed.clear()
            if not self._is_leader():
                continue
            names, self._to_look_at = self._to_look_at, set()
            if (failure := await self._write_all(names)) is None:
                self._backoff.reset()
                continue
            delay_s = self._backoff.next_delay_s(failure)
            logger.warning(
                "nodes are not written for the autoscaler yet %s",
                fields(nodes=len(self._to_look_at), error=failure, retry_s=round(delay_s, 1)),
            )
            await self._clock.sleep(delay_s)
            self._changed.set()

    async def _write_all(self, names: set[str]) -> GcushareError | None:
        """Write what these nodes lack; returns one of the errors, and their nodes are looked at again."""
        found: GcushareError | None = None
        # Those that pods hold now come first: the autoscaler may have chosen one of them already.
        for name in sorted(names, key=lambda name: (not any(self._held(name).values()), name)):
            if isinstance(found, RetryableError) or not self._is_leader():
                self._to_look_at.add(name)  # The server does not answer the others either, or another replica writes.
                continue
            try:
                await self._write(name)
            except NotFoundError:
                pass  # The watch will show it.
            except ConflictError:
                self._look_at(name)  # The watch is behind, and brings what was written.
            except GcushareError as failure:
                self._to_look_at.add(name)
                found = failure
        return found

    async def _write(self, name: str) -> None:
        if (seen := self._seen.get(name)) is None:
            return
        precondition = Precondition(resource_version=self._versions[name])
        if wanted := seen.plan_annotations(self._held(name)):
            await self._bucket.take()
            # Through the status, which keeps the spec.
            patch = annotations_patch(wanted, precondition)
            await self._client.patch(NODES, name, patch, subresource="status", timeout_s=_WRITE_S)
            logger.info("marked a node for the autoscaler %s", fields(node=name, kept_for=wanted.get(KEPT_MARK) or ""))
        elif seen.taint is not None and self._is_offered(name, seen):
            await self._bucket.take()
            await self._remove_taint(name, seen.taint)

    async def _remove_taint(self, name: str, index: int) -> None:
        # By index and version: a list in a merge patch would drop what we do not read of other taints.
        steps = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": self._versions[name]},
            {"op": "remove", "path": f"/spec/taints/{index}"},
        ]
        try:
            await self._client.patch(NODES, name, Patch(PatchKind.JSON, steps), timeout_s=_WRITE_S)
        except ForbiddenError as failure:
            # Not tried again until the node changes: only an upgrade of the chart helps.
            logger.warning(
                "the startup taint stays, and no pod is placed there: set the chart's autoscaling.startupTaint, which "
                "allows the extender to remove it, or remove it by kubectl taint %s",
                fields(node=name, taint=STARTUP_TAINT, error=failure),
            )
        else:
            logger.info("removed the startup taint %s", fields(node=name))

    def _held(self, name: str) -> Mapping[str, bool]:
        return {state.vendor.name: is_held(state.ledger.nodes.get(name)) for state in self._states}

    def _is_offered(self, name: str, seen: SeenNode) -> bool:
        nodes = ((state.ledger.nodes.get(name), state.vendor) for state in self._states)
        return any(node is not None and seen.offers(node, vendor) for node, vendor in nodes)
