"""The pods of this node that have cards, as use per pod, over-use, limits and reports need them.

The pod store of resources and the pods of claims fit; each learns of its pods in its own way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gcushare.core.assignments import PodRef
from gcushare.wire.objects import Pod
from gcushare.wire.pods import MACHINE_UID, deletion_time_s, is_mirror, pod_ref

CardCounts = Mapping[int, int]
"""Units (ids) per card index; 1 per card that is held whole."""
NO_SIZES: CardCounts = {}


class PodWithCards(Protocol):
    """One bound pod that was granted cards, or for which cards are kept."""

    @property
    def ref(self) -> PodRef: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def is_whole(self) -> bool:
        """Whether it has its cards whole."""

    @property
    def limit(self) -> int:
        """The units of each card that it may use while no other pod needs them; 0 if only those it was granted."""

    @property
    def taken_cards(self) -> tuple[int, ...]:
        """The cards that it holds."""

    @property
    def placed_s(self) -> float:
        """When it was given its cards, in seconds since the epoch; not later than that."""

    @property
    def ends_at_s(self) -> float | None:
        """When its containers have to end, in seconds since the epoch; None if its deletion was not requested."""

    def overdue_since_s(self, longest_wait_s: float) -> float | None:
        """When a pod that is being deleted should have ended, given at most this time; None if it is not deleted."""

    def units_by_card(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """The units of each card that it holds; of a whole card as many as ``sizes`` has."""

    def entitled_units(self) -> Mapping[int, int]:
        """Units that it may use beyond those that it is known to hold already, by card."""


@dataclass(slots=True)
class PlainPod:
    """A ``PodWithCards`` that says itself what it holds: ``units`` of each card, none if it was granted nothing.

    ``placed_s``: when it was given the last of them.
    """

    ref: PodRef
    annotations: Mapping[str, str] = field(default_factory=dict)
    ends_at_s: float | None = None
    deletion_grace_s: float = 0.0
    units: dict[int, int] = field(default_factory=dict)
    is_whole: bool = False
    placed_s: float = 0.0
    limit: int = 0

    @property
    def taken_cards(self) -> tuple[int, ...]:
        return tuple(sorted(self.units))

    def overdue_since_s(self, longest_wait_s: float) -> float | None:
        return overdue_since_s(self.ends_at_s, self.deletion_grace_s, longest_wait_s)

    def units_by_card(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        return {index: units or sizes.get(index, 0) for index, units in self.units.items()}

    def entitled_units(self) -> Mapping[int, int]:
        return NO_SIZES


def machine_uids(pods: Iterable[PodWithCards]) -> dict[str, str]:
    """The uid of each pod in the kubelet's checkpoint and in its control groups, by its uid on the API server.

    Of a static pod its mirror says it by annotation, which any author may write. It counts only if it is no other pod's
    uid and of one mirror alone, and not on a mirror that is being deleted, as the kubelet does at once with false ones.
    """
    found, said = dict[str, str](), dict[str, str]()
    for pod in pods:
        uid = pod.annotations.get(MACHINE_UID, "") if is_mirror(pod.annotations) and pod.ends_at_s is None else ""
        found[pod.ref.uid] = pod.ref.uid
        if uid:
            said[pod.ref.uid] = uid
    claims = Counter((*found, *said.values()))
    return found | {mirror: uid for mirror, uid in said.items() if claims[uid] == 1}


PlainPodT = TypeVar("PlainPodT", bound=PlainPod)


def plain_pod(pod: Pod, kind: type[PlainPodT]) -> PlainPodT:
    """A pod as the API server has it; what it holds is filled in later."""
    metadata = pod.metadata
    grace_s = float(metadata.deletion_grace_period_seconds or 0)
    return kind(pod_ref(pod), metadata.annotations, deletion_time_s(pod), grace_s)


def overdue_since_s(ends_at_s: float | None, deletion_grace_s: float, longest_wait_s: float) -> float | None:
    """When a pod that is being deleted should have ended; of the time that it was given, ``longest_wait_s`` counts."""
    return None if ends_at_s is None else ends_at_s - max(0.0, deletion_grace_s - longest_wait_s)


SharedGrant = tuple[Collection[str], CardCounts]
"""The uids of several pods, and the units of each card that were granted to all of them together."""


class NodePods(Protocol):
    """All of them. What a way of giving out cards does not know is none by default."""

    @property
    def entries(self) -> Mapping[str, PodWithCards]:
        """The pods with cards by uid."""

    @property
    def everyone(self) -> Mapping[str, PodWithCards]:
        """Those, and the pods that were granted nothing: they may use a card all the same."""

    def shared(self) -> Iterable[SharedGrant]:
        """The grants that several pods share, which count in full for each of ``entries``."""

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Units per card that are given out; ``sizes`` are the units of whole cards."""

    def unrecorded_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Those of them that no pod's record names."""
        return NO_SIZES

    def promised(self) -> Mapping[int, int]:
        """Units per card that are kept for pods that hold nothing yet."""
        return NO_SIZES

    def promised_whole(self) -> Collection[int]:
        """The cards that are kept whole for such pods."""
        return ()

    def unconfirmed_units(self) -> Mapping[int, int]:
        """Units per card that were given out just now, and may be another pod's than it seems."""
        return NO_SIZES
