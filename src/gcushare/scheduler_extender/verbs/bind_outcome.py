"""What may become of a bind: its times, its refusal by a follower, and what reading the pod says about an attempt."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gcushare.core.errors import RetryableError
from gcushare.wire.objects import Pod


class Found(enum.Enum):
    """What reading a pod says about our attempt to bind it."""

    AS_ASKED = "bound to the node that we asked for"
    ELSEWHERE = "bound to another node"
    UNBOUND = "not bound"
    GONE = "gone"


class NotLeader(RetryableError):
    """Another replica serves; nothing was changed."""


@dataclass(frozen=True, slots=True)
class BindTimes:
    """Seconds: ``total_s`` for one bind with all its attempts, ``attempt_s`` for one request to the API server.

    The defaults keep the answer within kube-scheduler's own limit for an extender (5 s), and a request that a deposed
    leader sent ends before the next leader starts.
    """

    total_s: float = 4.0
    attempt_s: float = 2.0


def evaluate(pod: Pod, uid: str, node: str) -> Found:
    """Say what a pod just read means for binding ``uid`` to ``node``."""
    if pod.metadata.uid != uid:
        return Found.GONE
    if pod.is_bound:
        return Found.AS_ASKED if pod.spec.node_name == node else Found.ELSEWHERE
    return Found.GONE if pod.is_being_deleted else Found.UNBOUND
