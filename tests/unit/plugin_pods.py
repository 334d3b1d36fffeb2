"""Pods of one node as the plugin's watch brings them, and what its store says of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import PodRecord, decode_record
from gcushare.wire.objects import Pod
from tests.unit.plugin_reconcile import MIRROR_ANNOTATIONS

UNITS = dict.fromkeys(range(8), 16)
UUIDS = {index: f"uuid-{index}" for index in range(8)}


def pod(
    name: str, *units: int, card: int | None = 0, assigned: bool = False, uid: str = "", phase: str = "Pending"
) -> Pod:
    annotations = {}
    if card is not None:
        annotations = {
            "enflame.com/gcu-device-id": str(card),
            "enflame.com/gcu-device-assigned": str(assigned).lower(),
            "enflame.com/gcu-device-assign-time": "7",
        }
        if assigned:
            annotations |= {
                "enflame.com/gcu-device-memory": "16",
                "enflame.com/gcu-device-memory-request": str(sum(units)),
                "gcushare.io/card-uuid": f"uuid-{card}",
            }
    containers = [
        {"name": f"c{n}", "resources": {"limits": {"enflame.com/gcu-memory": size}}} for n, size in enumerate(units)
    ]
    metadata = {"name": name, "namespace": "d", "uid": uid or f"uid-{name}", "annotations": annotations}
    document = {"metadata": metadata, "spec": {"nodeName": "n", "containers": containers}, "status": {"phase": phase}}
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def init_pod(name: str, init_units: int, units: int) -> Pod:
    plain = msgspec.to_builtins(pod(name, units))
    limits = {"limits": {"enflame.com/gcu-memory": init_units}}
    plain["spec"]["initContainers"] = [{"name": "init", "resources": limits}]
    return msgspec.convert(plain, type=Pod)


def whole_pod(name: str, count: int = 1, cards: str = "", *, assigned: bool = False, init: int = 0) -> Pod:
    annotations = {}
    if cards:
        annotations = {
            "enflame.com/gcu-device-id": cards,
            "enflame.com/gcu-device-assigned": str(assigned).lower(),
            "enflame.com/gcu-device-assign-time": "7",
            "gcushare.io/card-mode": "whole",
        }
    asks = [{"name": "c0", "resources": {"limits": {"enflame.com/gcu": count}}}]
    before = [{"name": "i0", "resources": {"limits": {"enflame.com/gcu": init}}}] if init else []
    metadata = {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": annotations}
    spec = {"nodeName": "n", "containers": asks, "initContainers": before}
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}), type=Pod)


def mirror(*, card: int | None = 0, assigned: bool = True) -> Pod:
    plain = pod("mirror", 4, card=card, assigned=assigned)
    return with_annotations(plain, plain.metadata.annotations | MIRROR_ANNOTATIONS)


def with_annotations(bound: Pod, annotations: Mapping[str, str]) -> Pod:
    metadata = msgspec.structs.replace(bound.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(bound, metadata=metadata)


def being_deleted(bound: Pod, *, ended_s: int, grace_s: int = 0) -> Pod:
    """A pod whose deletion was asked for: when it has to end, in seconds since the epoch, and the time it was given."""
    moment = datetime.fromtimestamp(ended_s, UTC).isoformat()
    metadata = msgspec.structs.replace(bound.metadata, deletion_timestamp=moment, deletion_grace_period_seconds=grace_s)
    return msgspec.structs.replace(bound, metadata=metadata)


def ended(pod: Pod) -> Pod:
    """The last state of a pod whose containers have ended."""
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))


def store_of(*pods: Pod) -> PodStore:
    store = PodStore(ENFLAME)
    for each in pods:
        store.pod_applied(each)
    return store


def record_of(write: RecordWrite) -> PodRecord:
    found = decode_record(ENFLAME, write.annotations)
    assert found is not None
    return found


def written(store: PodStore) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {write.pod.name: (write.cards, write.corrected_from) for write in store.writes(UUIDS, UNITS, 1)}


def in_use(store: PodStore) -> tuple[set[int], set[int]]:
    """The cards in shared use, and those in whole use."""
    return set(store.cards_in_use(whole=False)), set(store.cards_in_use(whole=True))


def waiting(store: PodStore) -> list[str]:
    return [candidate.pod.name for candidate in (*store.candidates(), *store.candidates(whole=True))]
