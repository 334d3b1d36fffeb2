"""The scheduler's view of the cluster: nodes, their pods, and the pods that it has just assumed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from gcushare_playground.amounts import Amounts
from gcushare_playground.scheduler.objects import NodeInfo, PodInfo


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node and the pods that count on it, at the start of a cycle."""

    node: NodeInfo
    pods: tuple[PodInfo, ...]
    used: Amounts
    scored: Amounts

    @property
    def name(self) -> str:
        return self.node.name


def view_of(node: NodeInfo, pods: Iterable[PodInfo]) -> NodeView:
    """Sum up what the pods of a node use."""
    present = tuple(pods)
    return NodeView(node, present, _sum(pod.requests for pod in present), _sum(pod.scored for pod in present))


def _sum(amounts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


class ClusterCache:
    """Nodes and placed pods; a pod is *assumed* from the decision on until the watch shows it, or binding fails."""

    def __init__(self, *, heeds_annotations: bool) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._heeds_annotations = heeds_annotations
        self.bound: dict[str, PodInfo] = {}
        self._assumed: dict[str, tuple[PodInfo, str]] = {}

    def set_node(self, node: NodeInfo) -> bool:
        """Take in a node; returns whether it changed in a way that may let more pods fit."""
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if before is None or before.fingerprint != node.fingerprint:
            return True
        return self._heeds_annotations and before.annotations != node.annotations

    def drop_node(self, name: str) -> None:
        """Take in that a node is gone; its pods stay known until they are gone too."""
        self.nodes.pop(name, None)

    def set_bound(self, pod: PodInfo) -> None:
        """Take in a pod that has a node: an assumption about it is confirmed or overruled."""
        self.bound[pod.uid] = pod
        self._assumed.pop(pod.uid, None)

    def drop_pod(self, uid: str) -> bool:
        """Take in that a pod is gone; returns whether it held room on a node."""
        held_assumed = self._assumed.pop(uid, None) is not None
        return self.bound.pop(uid, None) is not None or held_assumed

    def assume(self, pod: PodInfo, node: str) -> None:
        """Count a pod on its node before the API server knows."""
        self._assumed[pod.uid] = (pod, node)

    def forget(self, uid: str) -> None:
        """Take an assumption back."""
        self._assumed.pop(uid, None)

    def is_placed(self, uid: str) -> bool:
        """Whether a pod has a node, or is on its way to one."""
        return uid in self.bound or uid in self._assumed

    def placed_uids(self) -> frozenset[str]:
        """Every pod that has a node, or is on its way to one."""
        return frozenset(self.bound) | frozenset(self._assumed)

    def views(self, nominees: Iterable[PodInfo] = (), without: Collection[str] = ()) -> list[NodeView]:
        """Every node by name, with the pods that are placed on it and its nominees; those ``without`` as if gone."""
        on_node: dict[str, list[PodInfo]] = {name: [] for name in self.nodes}
        for placed, node in chain(self._placed(), ((each, each.nominated) for each in nominees)):
            if node in on_node and placed.uid not in without:
                on_node[node].append(placed)
        return [view_of(self.nodes[name], on_node[name]) for name in sorted(self.nodes)]

    def _placed(self) -> Iterator[tuple[PodInfo, str]]:
        yield from ((bound, bound.node_name) for bound in self.bound.values())
        yield from self._assumed.values()
