"""Handlers of watches that pass objects on to views and other observers, in order.

All words are those of ``kube.collections.WatchHandler``: an object was applied or deleted, others were retained. An
observer of several kinds has the kind in the names of its methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gcushare.cluster.view import ClusterView
from gcushare.kube.collections import Places
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.objects import Node, Pod


class NodeObserver(Protocol):
    """An observer of nodes, by name; ``view.ClusterView`` says what each call means."""

    def node_applied(self, node: Node) -> None: ...

    def node_deleted(self, name: str) -> None: ...


class PodObserver(Protocol):
    """An observer of pods, by uid."""

    def pod_applied(self, pod: Pod) -> None: ...

    def pod_deleted(self, uid: str) -> None: ...

    def pods_retained(self, uids: frozenset[str], version: str) -> None: ...


class NodeHandler:
    """Handles nodes. Of two nodes with one name, the end of the first is reported before the second comes."""

    def __init__(self, observers: Sequence[NodeObserver]) -> None:
        self._observers = observers
        self._places = Places()

    def applied(self, obj: Node) -> None:
        is_another = self._places.put(obj.metadata) is not None
        for observer in self._observers:
            if is_another:
                observer.node_deleted(obj.metadata.name)
            observer.node_applied(obj)

    def deleted(self, obj: Node) -> None:
        self._delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self._places.missing_in(uids):
            self._delete(uid)

    def _delete(self, uid: str) -> None:
        if (name := self._places.drop(uid)) is not None:
            for observer in self._observers:
                observer.node_deleted(name)


class PodHandler:
    """Handles pods. Pods that ask for no vendor's cards are not stored."""

    def __init__(self, observers: Sequence[PodObserver]) -> None:
        self._observers = observers

    def applied(self, obj: Pod) -> None:
        for observer in self._observers:
            observer.pod_applied(obj)

    def deleted(self, obj: Pod) -> None:
        for observer in self._observers:
            observer.pod_deleted(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for observer in self._observers:
            observer.pods_retained(uids, version)


class ClaimHandler:
    """Handles claims. Claims of other drivers are not stored."""

    def __init__(self, views: Sequence[ClusterView]) -> None:
        self._views = views

    def applied(self, obj: ResourceClaim) -> None:
        for view in self._views:
            view.claim_applied(obj)

    def deleted(self, obj: ResourceClaim) -> None:
        for view in self._views:
            view.claim_deleted(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for view in self._views:
            view.claims_retained(uids, version)
