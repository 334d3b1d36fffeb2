"""From the watches into the states: one sink for Nodes and one for Pods, feeding every vendor served."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gcushare.scheduler_extender.state import VendorState
from gcushare.wire.objects import Node, Pod

decode_node = msgspec.json.Decoder(Node).decode
decode_pod = msgspec.json.Decoder(Pod).decode


class NodeSink:
    """Takes nodes. A node that comes back under its name with another uid replaces the one before."""

    def __init__(self, states: Sequence[VendorState]) -> None:
        self._states = states
        self._uid_of: dict[str, str] = {}

    def applied(self, obj: Node) -> None:
        """Learn a node's newest state."""
        self._uid_of[obj.metadata.name] = obj.metadata.uid
        for state in self._states:
            state.see_node(obj)

    def deleted(self, obj: Node) -> None:
        """Learn that a node is gone."""
        self._lose(obj.metadata.name)

    def retained(self, uids: frozenset[str]) -> None:
        """Learn that no other nodes exist."""
        for name in [name for name, uid in self._uid_of.items() if uid not in uids]:
            self._lose(name)

    def _lose(self, name: str) -> None:
        self._uid_of.pop(name, None)
        for state in self._states:
            state.lose_node(name)


class PodSink:
    """Takes pods; those that ask for nothing of any vendor leave no trace."""

    def __init__(self, states: Sequence[VendorState]) -> None:
        self._states = states

    def applied(self, obj: Pod) -> None:
        """Learn a pod's newest state."""
        for state in self._states:
            state.see_pod(obj)

    def deleted(self, obj: Pod) -> None:
        """Learn that a pod is gone."""
        for state in self._states:
            state.lose_pod(obj.metadata.uid)

    def retained(self, uids: frozenset[str]) -> None:
        """Learn that no other pods exist."""
        for state in self._states:
            state.keep_pods(uids)
