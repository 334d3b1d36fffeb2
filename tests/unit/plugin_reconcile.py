"""What the kubelet shows, written down in one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pods import CardCounts

MIRROR_ANNOTATIONS = {"kubernetes.io/config.hash": "hash", "kubernetes.io/config.mirror": "hash"}
"""What the kubelet writes on a static pod's mirror; its checkpoint calls the pod by the hash."""
Shown = Mapping[str, Mapping[str, CardCounts]]


def shown(memory: Shown, whole: Shown | None = None) -> KubeletAllocations:
    """Units, or whole cards, by pod, container and card."""
    return KubeletAllocations("podresources", dict(memory), dict(whole or {}))


def reconcile(
    store: PodStore, memory: Shown, whole: Shown | None = None, *, asked: Collection[str] | None = None
) -> None:
    """Have a pod store take what the kubelet shows."""
    store.on_kubelet_read(shown(memory, whole), asked=asked)
