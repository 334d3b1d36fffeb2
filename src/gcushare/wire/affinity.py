"""A pod's affinity and spreading: what restricts its nodes is read, of all else the number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import field

from gcushare.core.node_rules import NodeSelectorTerm


class _AffinityPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """As ``objects.KubeObject``, which this module may not import. As a field: a rule that is counted, but not read."""


class NodeSelector(_AffinityPart, frozen=True):
    """Terms: one or more have to select the node."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(_AffinityPart, frozen=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[_AffinityPart, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinity(_AffinityPart, frozen=True):
    """Affinity to pods, or anti-affinity."""

    required: tuple[_AffinityPart, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[_AffinityPart, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(_AffinityPart, frozen=True):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class TopologySpreadConstraint(_AffinityPart, frozen=True):
    when_unsatisfiable: str = ""


def soft_rules(affinity: Affinity, spreading: Iterable[TopologySpreadConstraint]) -> Iterator[str]:
    """What a pod prefers and does not require, in Kubernetes' words."""
    if affinity.node_affinity.preferred:
        yield "preferred node affinity"
    if affinity.pod_affinity.preferred:
        yield "preferred pod affinity"
    if affinity.pod_anti_affinity.preferred:
        yield "preferred pod anti-affinity"
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in spreading):
        yield "topology spread (ScheduleAnyway)"
