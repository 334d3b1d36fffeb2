"""The states of a pod that filter refused, and the events that move it from one state to the next. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class PodState(enum.Enum):
    """What the waker does with a pod."""

    WAITING = "waiting"
    """It waits in a group for room on one of the group's nodes."""
    OFFERED = "offered"
    """kube-scheduler asked by itself and was offered nodes, so it is at work on the pod."""
    CHOSEN = "chosen"
    """There is room, which is kept for it on trial; the annotation is not written yet."""
    WOKEN = "woken"
    """The annotation is written; kube-scheduler has not asked about the pod since."""
    ANSWERED = "answered"
    """kube-scheduler asked about the woken pod and was offered nodes."""
    PAUSED = "paused"
    """A write, a binding or an answer failed: it waits for a moment, longer each time, before it waits for room."""
    UNREACHED = "unreached"
    """Like WAITING, but kube-scheduler asked about no pod while it was woken: the call may not have reached us."""


class PodEvent(enum.Enum):
    """What happens to a pod."""

    REFUSED = "filter found no room"
    OFFERED = "filter offered nodes"
    BIND_FAILED = "its binding failed"
    ADOPTED = "it waits, but kube-scheduler did not ask"
    CHOSEN = "it would fit, and the room has settled"
    WRITTEN = "the annotation is written"
    WRITE_FAILED = "the annotation could not be written"
    BINDING = "its binding is under way when the time to answer is over"
    UNANSWERED = "kube-scheduler did not bind it in time"
    UNANSWERED_IN_SILENCE = "the same, and kube-scheduler asked about no pod meanwhile"
    SCHEDULER_BACK = "kube-scheduler asks about pods again"
    PAUSE_OVER = "its pause is over"


GROUPED = frozenset({PodState.WAITING, PodState.UNREACHED})
"""The states in which a pod is in a group."""
ATTEMPTED = frozenset({PodState.CHOSEN, PodState.WOKEN, PodState.ANSWERED})
"""The states in which room is kept for a pod on trial."""

_S = PodState
TRANSITIONS: Mapping[PodEvent, Mapping[PodState, PodState]] = {
    PodEvent.REFUSED: dict.fromkeys(PodState, _S.WAITING),
    PodEvent.OFFERED: {state: _S.ANSWERED if state in ATTEMPTED else _S.OFFERED for state in PodState},
    PodEvent.BIND_FAILED: dict.fromkeys(PodState, _S.PAUSED),
    PodEvent.ADOPTED: {_S.OFFERED: _S.WAITING},
    PodEvent.CHOSEN: dict.fromkeys(GROUPED, _S.CHOSEN),
    PodEvent.WRITTEN: {_S.CHOSEN: _S.WOKEN, _S.ANSWERED: _S.ANSWERED},
    PodEvent.WRITE_FAILED: {_S.CHOSEN: _S.PAUSED, _S.ANSWERED: _S.PAUSED},
    PodEvent.BINDING: dict.fromkeys(ATTEMPTED, _S.OFFERED),
    PodEvent.UNANSWERED: {_S.CHOSEN: _S.WAITING, _S.WOKEN: _S.WAITING, _S.ANSWERED: _S.PAUSED},
    PodEvent.UNANSWERED_IN_SILENCE: {_S.CHOSEN: _S.UNREACHED, _S.WOKEN: _S.UNREACHED, _S.ANSWERED: _S.PAUSED},
    PodEvent.SCHEDULER_BACK: {_S.UNREACHED: _S.PAUSED},
    PodEvent.PAUSE_OVER: {_S.PAUSED: _S.WAITING},
}
"""The next state by event and state. An event without an entry for the state changes nothing."""
