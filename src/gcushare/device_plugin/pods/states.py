"""The states of a pod on this node, written down as data: what each means, and which event leads from one to another.

No event advances a state. At every event the pod store computes the state of each pod from three inputs: the pod as the
watch has it, the kubelet's allocations, and the pending ones, which the kubelet does not show yet. A node has at most
some hundred pods, so computing all of them is simpler than tracking what changed, and cheap.

A pod that leaves the API server has no state. ``force_deleted`` keeps its cards while its containers may still run.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class PodState(Enum):
    """What a bound pod that asks for cards has of them."""

    UNPLACED = "It has no readable record, and holds nothing."
    WAITING = "Cards are kept for it, and it holds nothing."
    DISPLACED = "It waits, and units like those kept for it were given out; the kubelet does not show yet to which pod."
    UNVERIFIED = "Its record may say that it has its cards, and the kubelet was not read since."
    PARTLY_SERVED = "Some of its containers hold cards; the kubelet asks for the next one."
    UNCONFIRMED = "All its containers were served; the kubelet does not show all of that yet."
    SERVED = "All its containers hold cards, and the kubelet shows it."
    FORGOTTEN = "Its record says that it has its cards, and the kubelet knows of none: its checkpoint was lost."


class PodEvent(Enum):
    """What may change the state of a pod. It may also be an event of another pod of the node."""

    POD_UPDATE = "The watch shows a pod's newest state, or its end."
    ALLOCATE = "The kubelet was given cards, probably for this pod."
    KUBELET_READ = "The kubelet's allocations were read."
    PENDING_END = "The kubelet did not show a pending allocation in time, or could not be read."


NEEDS_CARDS = frozenset(
    {PodState.UNPLACED, PodState.WAITING, PodState.DISPLACED, PodState.PARTLY_SERVED, PodState.FORGOTTEN}
)
"""A call of the kubelet may be for a pod in one of these states; for a forgotten one only if for no other."""

_HOLDS_NOTHING = NEEDS_CARDS - {PodState.PARTLY_SERVED} | {PodState.UNVERIFIED}
_GUESSED = frozenset({PodState.PARTLY_SERVED, PodState.UNCONFIRMED})
_SHOWN = frozenset({PodState.PARTLY_SERVED, PodState.SERVED})

TRANSITIONS: Mapping[tuple[PodState, PodEvent], frozenset[PodState]] = {
    # The scheduler's binding, or another program, wrote, changed or removed the record.
    **{(state, PodEvent.POD_UPDATE): _HOLDS_NOTHING - {state} for state in _HOLDS_NOTHING},
    # A guess: the call named no pod.
    (PodState.UNPLACED, PodEvent.ALLOCATE): _GUESSED,
    (PodState.WAITING, PodEvent.ALLOCATE): _GUESSED | {PodState.DISPLACED},
    (PodState.DISPLACED, PodEvent.ALLOCATE): _GUESSED,
    (PodState.PARTLY_SERVED, PodEvent.ALLOCATE): frozenset({PodState.UNCONFIRMED}),
    (PodState.FORGOTTEN, PodEvent.ALLOCATE): _GUESSED,
    # The guess was right, or wrong and the cards are another pod's; or the kubelet has lost its checkpoint.
    (PodState.UNPLACED, PodEvent.KUBELET_READ): _SHOWN,
    (PodState.WAITING, PodEvent.KUBELET_READ): _SHOWN | {PodState.DISPLACED},
    (PodState.DISPLACED, PodEvent.KUBELET_READ): _SHOWN | {PodState.WAITING},
    (PodState.UNVERIFIED, PodEvent.KUBELET_READ): _SHOWN | _HOLDS_NOTHING - {PodState.UNVERIFIED},
    (PodState.PARTLY_SERVED, PodEvent.KUBELET_READ): _HOLDS_NOTHING | {PodState.UNCONFIRMED, PodState.SERVED},
    (PodState.UNCONFIRMED, PodEvent.KUBELET_READ): _HOLDS_NOTHING | _SHOWN,
    (PodState.SERVED, PodEvent.KUBELET_READ): _HOLDS_NOTHING | _GUESSED,
    (PodState.FORGOTTEN, PodEvent.KUBELET_READ): _SHOWN,
    # The pod was not admitted, or the kubelet could not be read and the guess counts.
    (PodState.DISPLACED, PodEvent.PENDING_END): frozenset({PodState.WAITING}),
    (PodState.PARTLY_SERVED, PodEvent.PENDING_END): _HOLDS_NOTHING,
    (PodState.UNCONFIRMED, PodEvent.PENDING_END): _HOLDS_NOTHING | _SHOWN,
}
"""The states that may follow on each state by each event; no row: none. A new pod starts in any but ``FORGOTTEN``."""
