"""Handlers of watches that pass objects on to views and other observers, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gcushare.cluster.view import ClusterView
from gcushare.kube.collections import Places
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.objects import Node, Pod


class NodeObserver(Protocol):
    """An observer of nodes, by name; ``view.ClusterView`` says what each call means."""

    def on_node_update(self, node: Node) -> None: ...

    def on_node_delete(self, name: str) -> None: ...


class PodObserver(Protocol):
    """An observer of pods, by uid."""

    def on_pod_update(self, pod: Pod) -> None: ...

    def on_pod_delete(self, uid: str) -> None: ...

    def on_pod_resync(self, uids: frozenset[str], version: str) -> None: ...


class NodeHandler:
    """Handles nodes. A node with the name of a known one and another uid replaces it."""

    def __init__(self, observers: Sequence[NodeObserver]) -> None:
        self._observers = observers
        self._places = Places()

    def applied(self, obj: Node) -> None:
        self._places.put(obj.metadata)
        for observer in self._observers:
            observer.on_node_update(obj)

    def deleted(self, obj: Node) -> None:
        self._delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self._places.missing_in(uids):
            self._delete(uid)

    def _delete(self, uid: str) -> None:
        if (name := self._places.drop(uid)) is not None:
            for observer in self._observers:
                observer.on_node_delete(name)


class PodHandler:
    """Handles pods. Pods that ask for no vendor's cards are not stored."""

    def __init__(self, observers: Sequence[PodObserver]) -> None:
        self._observers = observers

    def applied(self, obj: Pod) -> None:
        for observer in self._observers:
            observer.on_pod_update(obj)

    def deleted(self, obj: Pod) -> None:
        for observer in self._observers:
            observer.on_pod_delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for observer in self._observers:
            observer.on_pod_resync(uids, version)


class ClaimHandler:
    """Handles claims. Claims of other drivers are not stored."""

    def __init__(self, views: Sequence[ClusterView]) -> None:
        self._views = views

    def applied(self, obj: ResourceClaim) -> None:
        for view in self._views:
            view.on_claim_update(obj)

    def deleted(self, obj: ResourceClaim) -> None:
        for view in self._views:
            view.on_claim_delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for view in self._views:
            view.on_claim_resync(uids, version)
