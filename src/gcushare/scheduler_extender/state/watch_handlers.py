"""The handlers of the watches: they pass Nodes, Pods and claims to every vendor's state, and to other observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.objects import Node, Pod


class NodeObserver(Protocol):
    """An observer of nodes: a vendor's state, or the page's metadata cache."""

    def on_node_update(self, node: Node) -> None:
        """Update a node that was added or changed."""
        ...

    def on_node_delete(self, name: str) -> None:
        """Remove a node that is gone."""
        ...


class PodObserver(Protocol):
    """An observer of pods."""

    def on_pod_update(self, pod: Pod) -> None:
        """Update a pod that was added or changed."""
        ...

    def on_pod_delete(self, uid: str) -> None:
        """Remove a pod that is gone."""
        ...

    def on_pod_resync(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod but ``uids``, which are all that existed at ``version``."""
        ...


class NodeHandler:
    """Handles nodes. A node with the name of a known one and another uid replaces it."""

    def __init__(self, states: Sequence[NodeObserver]) -> None:
        self._states = states
        self._uid_of: dict[str, str] = {}

    def applied(self, obj: Node) -> None:
        """A node was added or changed."""
        self._uid_of[obj.metadata.name] = obj.metadata.uid
        for state in self._states:
            state.on_node_update(obj)

    def deleted(self, obj: Node) -> None:
        """A node was deleted."""
        self._delete(obj.metadata.name)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """A list is complete: no other nodes exist."""
        for name in [name for name, uid in self._uid_of.items() if uid not in uids]:
            self._delete(name)

    def _delete(self, name: str) -> None:
        self._uid_of.pop(name, None)
        for state in self._states:
            state.on_node_delete(name)


class PodHandler:
    """Handles pods. Pods that ask for no vendor's cards are not stored."""

    def __init__(self, states: Sequence[PodObserver]) -> None:
        self._states = states

    def applied(self, obj: Pod) -> None:
        """A pod was added or changed."""
        for state in self._states:
            state.on_pod_update(obj)

    def deleted(self, obj: Pod) -> None:
        """A pod was deleted."""
        for state in self._states:
            state.on_pod_delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """A list is complete: no other pods exist."""
        for state in self._states:
            state.on_pod_resync(uids, version)


class ClaimHandler:
    """Handles claims. Claims of other drivers are not stored."""

    def __init__(self, states: Sequence[VendorState]) -> None:
        self._states = states

    def applied(self, obj: ResourceClaim) -> None:
        """A claim was added or changed."""
        for state in self._states:
            state.count_claims(state.claims.update(obj))

    def deleted(self, obj: ResourceClaim) -> None:
        """A claim was deleted."""
        for state in self._states:
            state.count_claims(state.claims.remove(obj.metadata.uid))

    def retained(self, uids: frozenset[str], version: str) -> None:
        """A list is complete: no other claims exist."""
        for state in self._states:
            state.count_claims(state.claims.retain(uids))
