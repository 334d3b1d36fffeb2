"""Nodes and pods as the extender sees them: as values for unit tests, as documents for the API server double."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Inventory, InventoryCard
from gcushare.core.ledger import Drift, FigureDrift
from gcushare.core.units import parse_memory_unit
from gcushare.core.whole_cards import CLOSE
from gcushare.scheduler_extender import maintenance
from gcushare.scheduler_extender.state.scheduling_request import (
    Policies,
    RejectedRequest,
    SchedulingRequest,
    read_scheduling_request,
)
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.annotations import PodRecord, encode_record
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import Node, Pod
from tests.builders import card, present

Document = dict[str, Any]

DEFAULT_POLICIES = Policies("binpack", "binpack", CLOSE)
"""The extender's defaults."""


def inventory_text(
    offered: Sequence[InventoryCard], unit: str = "1", *, modes: tuple[str, ...] = (SERVES_MEMORY,)
) -> str:
    return encode_inventory(Inventory(unit=parse_memory_unit(unit), cards=tuple(offered), modes=modes))


def node_document(
    name: str,
    *sizes: int,
    vendor: Vendor = ENFLAME,
    offered: Sequence[InventoryCard] | None = None,
    annotations: Mapping[str, str] | None = None,
    modes: tuple[str, ...] = (SERVES_MEMORY,),
) -> Document:
    """A node with cards of these sizes, or the cards offered; ``modes``: what its plugin hands out."""
    shown = [card(index, size) for index, size in enumerate(sizes)] if offered is None else list(offered)
    total = str(sum(each.units for each in shown))
    capacity = {vendor.memory_resource: total, vendor.count_resource: str(len(shown)), "cpu": "64", "pods": "110"}
    if SERVES_MEMORY not in modes:
        del capacity[vendor.memory_resource]
    if SERVES_WHOLE in modes:
        capacity[vendor.whole_card_resource] = str(len(shown))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "annotations": {vendor.inventory_annotation: inventory_text(shown, modes=modes), **(annotations or {})},
        },
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod_document(
    name: str,
    units: object = 4,
    *,
    vendor: Vendor = ENFLAME,
    node: str = "",
    record: PodRecord | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "Pending",
    whole: int = 0,
    priority: int = 0,
    nominated: str = "",
    group: str = "",
    **metadata: object,
) -> Document:
    """A pod of one container that asks for ``units``, or for ``whole`` cards; bound where a node is named.

    ``nominated``: the node on which kube-scheduler keeps room for it; ``group``: its PodGroup.
    """
    written = encode_record(vendor, record) if record is not None else {}
    amount = {vendor.memory_resource: units} if units is not None else {}
    if whole:
        amount = {vendor.whole_card_resource: str(whole)}
    document: Document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {**(annotations or {}), **written},
            **metadata,
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": amount, "requests": amount}}]
        },
        "status": {"phase": phase},
    }
    if node:
        document["spec"]["nodeName"] = node
    if priority:
        document["spec"]["priority"] = priority
    if nominated:
        document["status"]["nominatedNodeName"] = nominated
    if group:
        document["spec"]["schedulingGroup"] = {"podGroupName": group}
    return document


def as_pod(document: Document) -> Pod:
    return msgspec.convert(document, Pod)


def on_card(index: int, units: int, *, size: int = 16, when: int = 1) -> PodRecord:
    return PodRecord(card_indexes=(index,), card_units=size, pod_units=units, assign_time_ns=when)


def as_whole(*indexes: int, size: int = 16, when: int = 1) -> PodRecord:
    return PodRecord(
        card_indexes=indexes, card_units=size, pod_units=size * len(indexes), assign_time_ns=when, whole=True
    )


def a_node(name: str, *sizes: int, **options: Any) -> Node:
    return msgspec.convert(node_document(name, *sizes, **options), Node)


def a_pod(name: str, units: object = 4, **options: Any) -> Pod:
    return as_pod(pod_document(name, units, **options))


def request_of(pod: Pod, policies: Policies = DEFAULT_POLICIES) -> SchedulingRequest:
    return present(read_scheduling_request(pod, ENFLAME, policies))


def state_of(
    *nodes: Node,
    vendor: Vendor = ENFLAME,
    policies: Policies | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> VendorState:
    state = VendorState(vendor, policies or DEFAULT_POLICIES, monotonic=monotonic)
    for node in nodes:
        state.node_applied(node)
    return state


def recount(state: VendorState) -> list[Drift | FigureDrift]:
    """Everything that a recount finds, in one go."""
    return list(chain.from_iterable(maintenance.recount(state)))


def filter_body(pod: Document, names: Sequence[str]) -> bytes:
    """A filter request in the order and spacing of kube-scheduler."""
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}, separators=(",", ":")).encode()


def preempt_body(pod: Document, victims: Mapping[str, Sequence[str]], violations: int = 0) -> bytes:
    """A preempt request that proposes to end pods of these names, by node."""
    meta = {
        node: {"Pods": [{"UID": f"uid-{name}"} for name in names], "NumPDBViolations": violations}
        for node, names in victims.items()
    }
    return json.dumps({"Pod": pod, "NodeNameToMetaVictims": meta}).encode()


def known_request(state: VendorState, name: str) -> SchedulingRequest:
    """What a pod asks for that the watch or filter has shown."""
    return present(state.find_request(f"uid-{name}"))


def rejected(state: VendorState, uid: str) -> RejectedRequest:
    """A waiting pod whose request is not granted."""
    found = state.waiting[uid]
    assert isinstance(found, RejectedRequest)
    return found
