"""Cuts free text to the words that Kubernetes and this project use when they say why a pod does not run; pure.

An event's message and a pod's status message are written by whoever likes to, and tokens have been found in both. What
is needed of them is a known sentence with its numbers. Every other word becomes an ellipsis, so that a secret could
pass only where it is one of these words.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from gcushare.vendors import VENDORS

ELLIPSIS = "…"
_LONGEST = 4096

_SENTENCES = """
0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu, too many pods, node(s) had untolerated taint,
node(s) were unschedulable, node(s) didn't match Pod's node affinity/selector, node(s) didn't match pod topology
spread constraints, anti-affinity rules, node(s) didn't have free ports for the requested pod ports, volume node
affinity conflict, persistentvolumeclaim not found, unbound immediate PersistentVolumeClaims, no nodes available to
schedule pods, preemption: Preemption is not helpful for scheduling, No preemption victims found for incoming pod,
preempted by Successfully assigned to, skip schedule deleting pod, running filter plugin, binding rejected, pod is
already assigned, timed out waiting for the condition, failed to call extender, context deadline exceeded, connection
refused, i/o timeout

Allocate failed due to rpc error: code = Unknown Internal Unavailable FailedPrecondition ResourceExhausted desc =
which is unexpected, no healthy devices present; cannot allocate unhealthy devices, previously allocated devices are
no longer healthy, requested number of devices unavailable, Available, Requested, Pod was rejected, Pod cannot be
admitted, Node didn't have enough resource: requested: used: capacity:, admission error, GetPreferredAllocation

Back-off restarting failed container in pod, Back-off pulling image, Failed to pull image, Error: ErrImagePull
ImagePullBackOff CrashLoopBackOff CreateContainerError, Created container, Started container, Stopping container,
Pulling image, Pulled, already present on machine, Container image, Readiness Liveness Startup probe failed, HTTP
status code, exceeded its grace period, The node was low on resource, The node had condition, MemoryPressure
DiskPressure PIDPressure, Evicted, OOMKilled, Node is not ready, Deleted, killed, FailedMount, Unable to attach or
mount volumes

container of pod was given card, and its other containers hold card: all containers of a pod share one card; delete
the pod, card is in use as a whole by pods, so no memory of it can be given; the pod must be scheduled again, units
were taken from cards and the container gets one: the kubelet did not follow the plugin's preference; delete the pod
to have it placed again, the kubelet asked to allocate no device ids; nothing was granted, card is not on this node
any more; its cards are, the pod holds card which has no room for units more, the plugin has not found this node's
cards yet; can be created again in a moment, card is shared: uses memory of it, so it cannot be given whole, is sick,
is cordoned, lost, corrected, record says, the kubelet gave it, another

needs 12 in one card among the cards that the pod allows, needs whole cards, in each of cards, best card free: card of
node, whole cards free, no whole card is free, no card is free, total free, the largest request that fits now is, it
can never fit: no node serves whole cards memory; start the device plugin of nodes that should with --mode both, the
most usable cards of one node that serves have each, the largest usable card has, only pods of higher priority are in
the way, it would fit on if these pods ended: kube-scheduler does not end them by itself, as not all have a lower
priority, kube-scheduler asked about nodes, of the others and others has have room, but a nodeSelector, an affinity, a
taint or another resource keeps the pod from there, unless it took a sample of the nodes percentageOfNodesToScore,
pods to end were sought on such nodes, insufficient, it fits now, on
"""

_WORD = r"[A-Za-z][A-Za-z'/-]*"
_KNOWN = frozenset(
    word.strip("'-/").lower()
    for text in (
        _SENTENCES,
        *(reason for each in VENDORS for reason in (each.refused_reason, each.refused_whole_reason)),
    )
    for word in re.findall(_WORD, text)
)
_FIGURE = re.compile(r"\d{1,7}(?:[./]\d{1,7})?(?:%|s|ms|m|h|[KMG]i?B?)?")
_PIECES = re.compile(r"[\w./'@+=~%-]+|\s+|.", re.DOTALL)
_EDGES = ".'=-/"
_MARKS = frozenset(",.;:()[]{}'\"=/-+!?*<>|&%~@")


def cut_to_known(text: str, names: Collection[str] = ()) -> str:
    """Keep known words, short figures, ``names`` and marks; whatever stands between them becomes one ellipsis."""
    kept: list[str] = []
    for piece in _PIECES.findall(text[:_LONGEST]):
        if _may_stay(piece, names):
            kept.append(" " if piece.isspace() else piece)
        else:
            kept.append(ELLIPSIS)
    joined = re.sub(rf"{ELLIPSIS}(?:[^\w]*{ELLIPSIS})+", ELLIPSIS, "".join(kept))
    return joined if len(text) <= _LONGEST else f"{joined}{ELLIPSIS}"


def _may_stay(piece: str, names: Collection[str]) -> bool:
    if piece.isspace() or piece in _MARKS:
        return True
    core = piece.strip(_EDGES)
    return core.lower() in _KNOWN or core in names or _FIGURE.fullmatch(core) is not None
