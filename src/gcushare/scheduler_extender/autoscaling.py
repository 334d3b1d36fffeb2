"""What Cluster Autoscaler has to know of nodes with cards, written on the Nodes by the replica that leads.

Cluster Autoscaler adds up a node's units. So it evicts a pod whose units no card elsewhere has free in one piece, and
removes the pod's node. A node whose cards pods hold gets the annotation that keeps it from scale-down; a node that is
idle, or not ready, loses it. An admin's own annotation stays, whatever its value: ours has a mark with it, which names
the vendors whose cards are held, as each may have an extender of its own.

A node group may start its nodes with a taint, so that Cluster Autoscaler waits for their cards in place of adding more
nodes. It is removed once the cards are offered.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.errors import ForbiddenError, GcushareError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind, Precondition, annotations_patch
from gcushare.scheduler_extender.node_writer import NodeWriter
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED, STARTUP_TAINT
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

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
    """Whether pods or claims hold cards of a node whose cards are known; not pods that end with their node anyway."""
    held = node.assignments.values() if node is not None and node.known else ()
    return any(not each.pod.controller.startswith(("DaemonSet ", "Node ")) for each in held)


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
        self._states = tuple(states)
        self._writer = NodeWriter(client, "for the autoscaler", is_leader, clock=clock, rng=rng)
        vendors = [state.vendor for state in self._states]
        self._resources = [name for each in vendors for name in (each.memory_resource, each.whole_card_resource)]
        self._seen: dict[str, SeenNode] = {}
        self._to_look_at: set[str] = set()
        for state in self._states:
            state.ledger.listen(lambda node: self._look_at(node.name))

    def node_applied(self, node: Node) -> None:
        """Use a Node's newest state."""
        name, seen = node.metadata.name, SeenNode.of(node, self._resources)
        if self._writer.node_applied(node) or self._seen.get(name) != seen:
            self._seen[name] = seen
            self._look_at(name)

    def node_deleted(self, name: str) -> None:
        """Forget a node that is gone."""
        self._seen.pop(name, None)
        self._writer.node_deleted(name)

    def wake(self) -> None:
        """Look at every node again."""
        self._to_look_at.update(self._seen)
        self._writer.changed.set()

    def _look_at(self, name: str) -> None:
        self._to_look_at.add(name)
        self._writer.changed.set()

    async def run(self, complete: Callable[[], Awaitable[None]]) -> None:
        """Write until cancelled. ``complete`` waits until nodes, pods and claims are read: before, nodes seem idle."""
        await self._writer.run(self._write_all, complete)

    async def _write_all(self) -> None:
        """Write what the nodes to look at lack; raises one of the errors, and their nodes are looked at again."""
        names, self._to_look_at = self._to_look_at, set()
        failure: GcushareError | None = None
        # Those that pods hold now come first: the autoscaler may have chosen one of them already.
        for name in sorted(names, key=lambda name: (not any(self._held(name).values()), name)):
            try:
                # After such a failure the server does not answer the others either.
                is_done = not isinstance(failure, RetryableError) and await self._write(name)
            except GcushareError as error:
                is_done, failure = False, error
            if not is_done:
                self._to_look_at.add(name)
        if failure is not None:
            raise failure

    async def _write(self, name: str) -> bool:
        """Write what a node lacks; False if it has to be looked at again."""
        seen, is_done = self._seen.get(name), True
        if seen is None:
            return True
        if wanted := seen.plan_annotations(self._held(name)):
            is_done = await self._writer.write(
                name, lambda version: annotations_patch(wanted, Precondition(resource_version=version))
            )
            facts = fields(node=name, kept_for=wanted.get(KEPT_MARK) or "", is_done=is_done)
            logger.info("marked a node for the autoscaler %s", facts)
        elif seen.taint is not None and self._is_offered(name, seen):
            is_done = await self._remove_taint(name, seen.taint)
        return is_done

    async def _remove_taint(self, name: str, index: int) -> bool:
        def patch(version: str) -> Patch:
            # By index and version: a list in a merge patch would drop what we do not read of other taints.
            steps = [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                {"op": "remove", "path": f"/spec/taints/{index}"},
            ]
            return Patch(PatchKind.JSON, steps)

        try:
            is_done = await self._writer.write(name, patch, subresource=None)
        except ForbiddenError as failure:
            # Not tried again until the node changes: only an upgrade of the chart helps.
            logger.warning(
                "the startup taint stays, and no pod is placed there: set the chart's autoscaling.startupTaint, which "
                "allows the extender to remove it, or remove it by kubectl taint %s",
                fields(node=name, taint=STARTUP_TAINT, error=failure),
            )
            return True
        logger.info("removed the startup taint %s", fields(node=name, is_done=is_done))
        return is_done

    def _held(self, name: str) -> Mapping[str, bool]:
        return {state.vendor.name: is_held(state.ledger.nodes.get(name)) for state in self._states}

    def _is_offered(self, name: str, seen: SeenNode) -> bool:
        nodes = ((state.ledger.nodes.get(name), state.vendor) for state in self._states)
        return any(node is not None and seen.offers(node, vendor) for node, vendor in nodes)
