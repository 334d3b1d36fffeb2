"""Pods of one node as the plugin's watch brings them, what the kubelet shows of them, and what the store says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

import msgspec

from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pods import CardCounts
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARD_MODE, CARD_UUID, PodRecord, decode_record
from gcushare.wire.objects import Pod
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.builders import present

UNITS = dict.fromkeys(range(8), 16)
UUIDS = {index: f"uuid-{index}" for index in range(8)}
MEMORY, COUNT, WHOLE = ENFLAME.memory_resource, ENFLAME.count_resource, ENFLAME.whole_card_resource
MIRROR_ANNOTATIONS = {MACHINE_UID: "hash", MIRROR: "hash"}
"""What the kubelet writes on a static pod's mirror; its checkpoint calls the pod by the hash."""
Limits = Mapping[str, object]
Shown = Mapping[str, Mapping[str, CardCounts]]


def bound(
    name: str,
    *containers: Limits,
    init: Limits | None = None,
    annotations: Mapping[str, str] | None = None,
    uid: str = "",
    phase: str = "Pending",
    **spec: object,
) -> Pod:
    """A pod of this node whose containers c0, c1, ... have these limits; ``init``: those of an init container i0."""
    metadata = {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "annotations": dict(annotations or {})}
    asking = [{"name": f"c{n}", "resources": {"limits": limits}} for n, limits in enumerate(containers)]
    before = [{"name": "i0", "resources": {"limits": init}}] if init is not None else []
    whole = {"nodeName": "n", "containers": asking, "initContainers": before, **spec}
    return msgspec.convert({"metadata": metadata, "spec": whole, "status": {"phase": phase}}, Pod)


def recorded(cards: object, *, assigned: bool = False) -> dict[str, str]:
    """The record of a pod that was bound to these cards."""
    keys = ENFLAME.record
    return {keys.card_index: str(cards), keys.assigned: str(assigned).lower(), keys.assign_time: "7"}


def pod(
    name: str, *units: int, card: int | None = 0, assigned: bool = False, uid: str = "", phase: str = "Pending"
) -> Pod:
    annotations = {} if card is None else recorded(card, assigned=assigned)
    if assigned:
        annotations |= {
            ENFLAME.record.card_units: "16",
            ENFLAME.record.pod_units: str(sum(units)),
            CARD_UUID: f"uuid-{card}",
        }
    return bound(name, *({MEMORY: size} for size in units), annotations=annotations, uid=uid, phase=phase)


def init_pod(name: str, init_units: int, units: int) -> Pod:
    return bound(name, {MEMORY: units}, init={MEMORY: init_units}, annotations=recorded(0))


def whole_pod(name: str, count: int = 1, cards: str = "", *, assigned: bool = False, init: int = 0) -> Pod:
    annotations = recorded(cards, assigned=assigned) | {CARD_MODE: "whole"} if cards else {}
    return bound(name, {WHOLE: count}, init={WHOLE: init} if init else None, annotations=annotations)


def mirror(*, card: int | None = 0, assigned: bool = True) -> Pod:
    return with_more(pod("mirror", 4, card=card, assigned=assigned), MIRROR_ANNOTATIONS)


def with_annotations(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(pod, metadata=metadata)


def with_more(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    """The pod with these annotations in addition to, or in place of, those that it has."""
    return with_annotations(pod, pod.metadata.annotations | dict(annotations))


def being_deleted(pod: Pod, *, ended_s: int, grace_s: int = 0) -> Pod:
    """A pod whose deletion was asked for: when it has to end, in seconds since the epoch, and the time it was given."""
    moment = datetime.fromtimestamp(ended_s, UTC).isoformat()
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=moment, deletion_grace_period_seconds=grace_s)
    return msgspec.structs.replace(pod, metadata=metadata)


def ended(pod: Pod) -> Pod:
    """The last state of a pod whose containers have ended."""
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))


def store_of(*pods: Pod, memory: Shown | None = None, whole: Shown | None = None) -> PodStore:
    """A store that knows these pods; units, or whole cards, that the kubelet has shown it once it knew them."""
    store = PodStore(ENFLAME)
    for each in pods:
        store.pod_applied(each)
    if memory is not None or whole is not None:
        reconcile(store, memory or {}, whole)
    return store


def record_of(write: RecordWrite) -> PodRecord:
    return present(decode_record(ENFLAME, write.annotations))


def written(store: PodStore) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {write.pod.name: (write.cards, write.corrected_from) for write in store.writes(UUIDS, UNITS, 1)}


def in_use(store: PodStore) -> tuple[set[int], set[int]]:
    """The cards in shared use, and those in whole use."""
    return set(store.cards_in_use(whole=False)), set(store.cards_in_use(whole=True))


def waiting(store: PodStore) -> list[str]:
    return [candidate.pod.name for candidate in (*store.candidates(), *store.candidates(whole=True))]


def shown(memory: Shown, whole: Shown | None = None) -> KubeletAllocations:
    """Units, or whole cards, by pod, container and card."""
    return KubeletAllocations("podresources", dict(memory), dict(whole or {}))


def reconcile(
    store: PodStore, memory: Shown, whole: Shown | None = None, *, asked: Collection[str] | None = None
) -> None:
    """Have a pod store take what the kubelet shows."""
    store.on_kubelet_read(shown(memory, whole), asked=asked)
