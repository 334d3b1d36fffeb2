"""From the watches into the states: a handler for Nodes and one for Pods feed every vendor served, then the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gcushare.wire.objects import NODE, POD, Node, Pod

decode_node = NODE.read
decode_pod = POD.read


class NodeObserver(Protocol):
    """Who learns of nodes: a vendor's state, and the page's metadata cache."""

    def on_node_update(self, node: Node) -> None:
        """Take a node as it is now."""
        ...

    def on_node_delete(self, name: str) -> None:
        """Take note that a node is gone."""
        ...


class PodObserver(Protocol):
    """Who learns of pods."""

    def on_pod_update(self, pod: Pod) -> None:
        """Take a pod as it is now."""
        ...

    def on_pod_delete(self, uid: str) -> None:
        """Take note that a pod is gone."""
        ...

    def on_pod_resync(self, uids: frozenset[str], version: str) -> None:
        """Lose every pod that is not among ``uids``, all that existed at ``version``."""
        ...


class NodeHandler:
    """Takes nodes. A node that comes back under its name with another uid replaces the one before."""

    def __init__(self, states: Sequence[NodeObserver]) -> None:
        self._states = states
        self._uid_of: dict[str, str] = {}

    def applied(self, obj: Node) -> None:
        """Learn a node's newest state."""
        self._uid_of[obj.metadata.name] = obj.metadata.uid
        for state in self._states:
            state.on_node_update(obj)

    def deleted(self, obj: Node) -> None:
        """Learn that a node is gone."""
        self._lose(obj.metadata.name)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Learn that no other nodes exist."""
        for name in [name for name, uid in self._uid_of.items() if uid not in uids]:
            self._lose(name)

    def _lose(self, name: str) -> None:
        self._uid_of.pop(name, None)
        for state in self._states:
            state.on_node_delete(name)


class PodHandler:
    """Takes pods; those that ask for nothing of any vendor leave no trace."""

    def __init__(self, states: Sequence[PodObserver]) -> None:
        self._states = states

    def applied(self, obj: Pod) -> None:
        """Learn a pod's newest state."""
        for state in self._states:
            state.on_pod_update(obj)

    def deleted(self, obj: Pod) -> None:
        """Learn that a pod is gone."""
        for state in self._states:
            state.on_pod_delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Learn that no other pods exist."""
        for state in self._states:
            state.on_pod_resync(uids, version)
