"""Which nodes a pod's own rules leave it: nodeSelector, required node affinity, tolerated taints, cordons.

As kube-scheduler's filters NodeUnschedulable, TaintToleration and NodeAffinity decide it (1.20 to 1.36). What its
other filters decide depends on more than one pod and one node: resources, ports, volumes, affinity to pods,
spreading. A pod with ``spec.nodeName`` is bound, and no filter sees it.

The types stand in Kubernetes' objects as they are, so that nothing is converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

_INT64 = re.compile(r"[+-]?[0-9]+", re.ASCII)
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
"""What Go's ParseInt takes, and what a numeric toleration takes: no sign +, no leading zero."""
_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
)
_SHOWN = 80
MAX_RULES_CHARACTERS = 16 * 1024
"""Characters of all rules of a pod, each word counted with eight more: five hundred nodes by name are 10,000. An object
may have 1.5 MB of them, which would be 20 MB here, and half a second for each node that is judged."""
_MAX_VALUE = 63
"""Characters of a label's or taint's value: Kubernetes reads no longer one."""


class Taint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node keeps off the pods that do not tolerate it; with the effect PreferNoSchedule it only prefers others."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"

    @property
    def passes(self) -> bool:
        """Whether Kubernetes itself removes it, once the node is well again or has started."""
        return self.key.startswith(_PASSING)


CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""Who tolerates this taint is placed on a cordoned node too, also before the taint is there."""


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a pod tolerates: empty parts match all, ``operator`` is Equal, Exists, Gt or Lt. Gt and Lt are of 1.35."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Whether a pod with this toleration stands the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator in ("Gt", "Lt"):
            wanted, found = _number(self.value, _CANONICAL), _number(taint.value, _CANONICAL)
            return _compares(self.operator, found, wanted)
        return self.operator == "Exists"


class NodeRequirement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One condition on a label or a field: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        values = f" {', '.join(self.values)}" if self.values else ""
        return f"{self.key} {self.operator}{values}"

    def _is_met(self, labels: Mapping[str, str]) -> bool | None:
        """Whether labels meet it; None if it cannot be read: then its whole term selects nothing."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values if self.values else None
            case "NotIn":
                return found not in self.values if self.values else None
            case "Exists" | "DoesNotExist":
                return (found is None) == (self.operator == "DoesNotExist") if not self.values else None
            case "Gt" | "Lt":
                wanted = _number(self.values[0], _INT64) if len(self.values) == 1 else None
                if wanted is None:
                    return None
                return _compares(self.operator, None if found is None else _number(found, _INT64), wanted)
        return None

    def _names(self, node: str) -> bool | None:
        """The same for a field. There is one: the node's name."""
        if self.operator not in ("In", "NotIn") or len(self.values) != 1:
            return None
        name = node if self.key == "metadata.name" else ""
        return (name == self.values[0]) == (self.operator == "In")


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """Conditions that all have to be met; without any it selects no node."""

    match_expressions: tuple[NodeRequirement, ...] = ()
    match_fields: tuple[NodeRequirement, ...] = ()

    def __str__(self) -> str:
        return " and ".join(map(str, (*self.match_expressions, *self.match_fields)))

    def selects(self, node: NodePlace) -> bool:
        """Whether it selects a node."""
        met = [each._is_met(node.labels) for each in self.match_expressions]
        met += [each._names(node.name) for each in self.match_fields]
        return bool(met) and all(met)


@dataclass(frozen=True, slots=True)
class NodePlace:
    """What pods' rules are about: a node's name, labels, taints and cordon."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_cordoned: bool = False

    @property
    def taints_keeping_off(self) -> tuple[Taint, ...]:
        """The taints that keep off the pods that do not tolerate them; others only prefer that."""
        return tuple(each for each in self.taints if each.effect in ("NoSchedule", "NoExecute"))


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a pod off a node, in a few words. ``passes``: it is the node's state, and no rule of the pod."""

    text: str
    passes: bool = False


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The rules of one pod. ``terms`` is its required node affinity, one or more have to select the node; None without.

    ``selector`` has the nodeSelector's keys and values in order of key, so that equal rules are equal. ``are_read``:
    they were not too many to be read.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    are_read: bool = True

    def bounded(self) -> NodeRules:
        """These rules, or unknown rules if they are more than ``MAX_RULES_CHARACTERS``."""
        sizes = accumulate(len(word) + 8 for word in self._words())
        return UNREAD_RULES if any(size > MAX_RULES_CHARACTERS for size in sizes) else self

    def _words(self) -> Iterator[str]:
        for key, value in self.selector:
            yield key + value
        for term in self.terms or ():
            yield ""
            for each in (*term.match_expressions, *term.match_fields):
                yield each.key
                yield from each.values
        for toleration in self.tolerations:
            yield toleration.key + toleration.value

    def find_obstacle(self, node: NodePlace) -> Obstacle | None:
        """What keeps the pod off a node; None if nothing does. What passes is named if nothing else keeps it off."""
        if not self.are_read:
            return None
        taints = (*((CORDON,) if node.is_cordoned else ()), *node.taints_keeping_off)
        found = [taint for taint in taints if not any(each.covers(taint) for each in self.tolerations)]
        lasting = [taint for taint in found if not taint.passes]
        if text := f"taint {lasting[0]}" if lasting else self._find_mismatch(node):
            return Obstacle(text)
        if found:
            return Obstacle("a cordon" if found[0] == CORDON else f"taint {found[0]}", passes=True)
        return None

    def _find_mismatch(self, node: NodePlace) -> str:
        if any(node.labels.get(key) != value for key, value in self.selector):
            return f"nodeSelector {_cut(', '.join(f'{key}={value}' for key, value in self.selector))}"
        if self.terms is not None and not any(term.selects(node) for term in self.terms):
            return f"node affinity {_cut(' or '.join(map(str, self.terms)) or 'without a term')}"
        return ""


NO_RULES, NO_PLACE, UNREAD_RULES = NodeRules(), NodePlace(""), NodeRules(are_read=False)


def _number(text: str, form: re.Pattern[str]) -> int | None:
    number = int(text) if len(text) <= _MAX_VALUE and form.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _compares(operator: str, found: int | None, wanted: int | None) -> bool:
    if found is None or wanted is None:
        return False
    return found > wanted if operator == "Gt" else found < wanted


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
