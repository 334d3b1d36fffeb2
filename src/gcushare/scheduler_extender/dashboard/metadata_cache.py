"""What the page shows in addition to the ledger: labels, readiness, corrections, owners, the scheduler's messages.

The same watches update it as the ledger, after the ledger. It stores only nodes and pods that the ledger knows, and of
their labels only those that people search for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gcushare.scheduler_extender.dashboard.feed_documents import NodeMetadata, PodMetadata, shown_labels
from gcushare.scheduler_extender.state.scheduling_request import WaitingPod
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.annotations import corrected_text, idle_since, over_use_text, used_bytes
from gcushare.wire.objects import Node, Pod
from gcushare.wire.pods import controller_of

_MAX_MESSAGE = 600


class MetadataCache:
    """An observer of Nodes and Pods, called after the states. ``touch_node`` and ``touch_pod`` say what changed."""

    def __init__(
        self, states: Sequence[VendorState], touch_node: Callable[[str, str], None], touch_pod: Callable[[str], None]
    ) -> None:
        self._states = states
        self._touch_node = touch_node
        self._touch_pod = touch_pod
        self.nodes: dict[str, NodeMetadata] = {}
        self.pods: dict[str, PodMetadata] = {}
        self._problems: dict[str, str] = {}
        self._waiting: dict[str, WaitingPod] = {}
        for state in states:
            state.listen_moved(self._on_moved)

    # Nodes

    def node_applied(self, node: Node) -> None:
        name = node.metadata.name
        holders = [state for state in self._states if name in state.ledger.nodes]
        if not holders:
            self.node_deleted(name)
            return
        metadata = NodeMetadata(
            place=holders[0].places[name],
            unready=not node.is_ready,
            address=node.internal_ip or "",
            uncounted=frozenset(state.vendor.name for state in holders if name in state.nodes.without_units),
        )
        if self.nodes.get(name) != metadata:
            self.nodes[name] = metadata
            for state in holders:
                self._touch_node(state.vendor.name, name)

    def node_deleted(self, name: str) -> None:
        """Remove a node; the ledger notifies the readers."""
        self.nodes.pop(name, None)

    # Pods

    def pod_applied(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        waiting = self._find_waiting(uid)
        holders = [state for state in self._states if uid in state.bound]
        if waiting is None and not holders:
            self.pod_deleted(uid)
            if any(uid in state.unserved or uid in state.claims.noted_pods for state in self._states):
                self.pods[uid] = _metadata_of(pod, waits=True)  # It is shown once a node or a claim makes it wait.
            return
        metadata = _metadata_of(pod, waits=waiting is not None)
        is_new = self.pods.get(uid) != metadata
        self.pods[uid] = metadata
        if waiting is not None:
            if is_new or self._waiting.get(uid) != waiting:
                self._waiting[uid] = waiting
                self._touch_pod(uid)
            return
        was_waiting = self._waiting.pop(uid, None) is not None
        if was_waiting:
            self._touch_pod(uid)
        # A confirmed reservation changes no figure, so the ledger notifies no listener; the page shows the difference.
        for state in holders:
            problem = state.pod_problems.get(uid, "")
            if is_new or was_waiting or self._problems.get(uid, "") != problem:
                self._touch_node(state.vendor.name, state.bound[uid].node)
            if problem:
                self._problems[uid] = problem
            else:
                self._problems.pop(uid, None)

    def _find_waiting(self, uid: str) -> WaitingPod | None:
        found = (state.waiting.get(uid) or state.claiming.get(uid) for state in self._states)
        return next((waiting for waiting in found if waiting is not None), None)

    def _on_moved(self, uids: Iterable[str]) -> None:
        """Update pods that may have begun or ceased to wait for us, because of a node or a claim."""
        for uid in uids:
            if (waiting := self._find_waiting(uid)) is None:
                self._waiting.pop(uid, None)
            else:
                self._waiting[uid] = waiting
            self._touch_pod(uid)

    def pod_deleted(self, uid: str) -> None:
        """Remove a pod that is gone, or that neither holds cards nor waits for any; repeatable."""
        self.pods.pop(uid, None)
        self._problems.pop(uid, None)
        if self._waiting.pop(uid, None) is not None:
            self._touch_pod(uid)

    def pods_retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self.pods.keys() - uids:
            self.pod_deleted(uid)


def _metadata_of(pod: Pod, *, waits: bool) -> PodMetadata:
    meta = pod.metadata
    unscheduled = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    condition = next(unscheduled, None) if waits else None
    return PodMetadata(
        labels=shown_labels(meta.labels),
        corrected=corrected_text(meta.annotations),
        over_use=over_use_text(meta.annotations),
        uses=used_bytes(meta.annotations),
        idle_since=idle_since(meta.annotations),
        owner=controller_of(meta),
        ending=pod.is_being_deleted,
        scheduler=condition.message[:_MAX_MESSAGE] if condition is not None else "",
    )
