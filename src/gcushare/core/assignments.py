"""What a pod holds: cards of a node, in units of memory or whole."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod's identity. Compare by ``uid``, because names are reused. ``created`` is the API server's RFC 3339 text.

    ``controller``: what creates it again, such as ``ReplicaSet web-5d8``; "" if nothing does, or if it is not known.
    """

    uid: str
    namespace: str
    name: str
    created: str = ""
    priority: int = 0
    controller: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ApartGroup:
    """Pods of one namespace that share no card: those that ask for it by one label and have one value of it."""

    namespace: str
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True)
class CardGrant:
    """``units`` of one card, or all of the card if ``whole``."""

    index: int
    units: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """The cards that a pod holds on a node. ``assigned``: the node has confirmed them.

    ``unplaced`` are the memory units of a bound pod whose card is unknown; such a pod has no grants. ``unrecorded``:
    the node reports these grants, but the pod has no record of them. ``limit``: the units of all its cards that the pod
    may use while no other pod needs them; 0 if only its grants. ``sharers``: pods that share what it holds by claims,
    so that it is free only once they have ended too. ``apart``: the pods with which it shares no card, None if it may
    share with all.
    """

    pod: PodRef
    node: str
    grants: tuple[CardGrant, ...]
    assigned: bool = False
    assign_time_ns: int = 0
    unplaced: int = 0
    unrecorded: bool = False
    limit: int = 0
    sharers: tuple[PodRef, ...] = ()
    apart: ApartGroup | None = None

    @property
    def units(self) -> int:
        return sum(grant.units for grant in self.grants)
