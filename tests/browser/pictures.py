"""Clusters worth looking at: made from a seed, the same on every machine; for the screenshots and the tests of size."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARD_MODE, CORRECTED, PodRecord
from gcushare.wire.objects import Node, Pod
from tests.builders import card
from tests.extender_objects import node_document, pod_document

_NAMESPACES = (
    ("nlp-training", 6), ("vision", 5), ("recsys", 4), ("speech", 3), ("teaching", 3), ("robotics", 2), ("search", 2),
)  # fmt: skip
_WORKLOADS = ("llm-serve", "embed", "rank", "ocr", "asr", "detect", "finetune", "notebook", "batch-eval", "triton")
_SIZES = (2, 2, 3, 4, 4, 6, 8, 8, 10, 12)
_ZONES = ("a", "b", "c")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Shape:
    """How large, how full, and from which seed."""

    nodes: int
    cards: int = 8
    units: int = 16
    fill: float = 0.93
    seed: int = 7
    troubles: bool = True


def make_cluster(shape: Shape) -> Iterator[Node | Pod]:
    """Every node, then every bound pod."""
    dice = random.Random(shape.seed)
    pods: list[Pod] = []
    for number in range(1, shape.nodes + 1):
        name = f"gcu-{number:03d}" if shape.nodes < 1000 else f"gcu-{number:04d}"
        yield _node(name, number, shape)
        pods.extend(_pods_of(name, shape, dice))
    yield from pods


def waiting_pods(now: datetime) -> Iterator[Pod]:
    """Pods that found no room, among them one that never will; the first has waited for 47 minutes."""
    sizes = (16, 15, 16, 15, 24)
    names = ("llm-serve-0", "finetune-9", "batch-eval-3", "detect-11", "llm-70b-0")
    spaces = ("nlp-training", "vision", "recsys", "robotics", "nlp-training")
    for place, (name, size, space) in enumerate(zip(names, sizes, spaces, strict=True)):
        created = f"{now - timedelta(minutes=47 - 9 * place):%Y-%m-%dT%H:%M:%SZ}"
        uid, labels = f"waiting-{place}", {"app": name.rpartition("-")[0]}
        document = pod_document(name, size, namespace=space, uid=uid, creationTimestamp=created, labels=labels)
        message = "0/36 nodes are available: 36 insufficient GCU Memory in one gcu device."
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        document["status"]["conditions"] = [refused]
        yield msgspec.convert(document, Pod)


def _node(name: str, number: int, shape: Shape) -> Node:
    model = "S60" if number % 3 else "T20"
    sick: dict[str, Any] = {"sick": True, "reason": "driver reports 3 uncorrectable memory errors"}
    offered = []
    for index in range(shape.cards):
        more = sick if shape.troubles and number in (9, 22) and index == number % shape.cards else {}
        offered.append(card(index, shape.units, model=model, uuid=f"GCU-{number:04x}-{index:02x}", **more))
    annotations = {ENFLAME.cordon_annotation: "4,5"} if shape.troubles and number == 15 else {}
    document = node_document(name, offered=offered, annotations=annotations)
    document["metadata"]["labels"] = {
        "enflame.com/gcushare": "true",
        "topology.kubernetes.io/zone": f"cn-east-{_ZONES[number % 3]}",
        "gcushare.io/pool": "serving" if number % 4 else "research",
    }
    if shape.troubles and number == 29:
        document["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    document["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.20.{number // 250}.{number % 250}"}]
    return msgspec.convert(document, Node)


def _pods_of(node: str, shape: Shape, dice: random.Random) -> Iterator[Pod]:
    busy = min(0.995, max(0.1, dice.gauss(shape.fill, 0.06)))
    for index in range(shape.cards):
        if dice.random() < 0.06:
            yield _pod(node, index, shape.units, dice, whole=True)
            continue
        left = shape.units
        while (left == shape.units or dice.random() < busy) and (fitting := [size for size in _SIZES if size <= left]):
            units = dice.choice(fitting)
            left -= units
            yield _pod(node, index, units, dice)


def _pod(node: str, index: int, units: int, dice: random.Random, *, whole: bool = False) -> Pod:
    space = dice.choices([name for name, _ in _NAMESPACES], [weight for _, weight in _NAMESPACES])[0]
    work = dice.choice(_WORKLOADS)
    suffix = "".join(dice.choices(_LETTERS, k=5))
    name = f"{work}-{suffix}"
    record = PodRecord(
        card_indexes=(index,),
        card_units=16,
        pod_units=units,
        assigned=dice.random() > 0.03,
        assign_time_ns=dice.randrange(1, 10**9),
        whole=whole,
    )
    annotations = {CORRECTED: f"{(index + 1) % 8}->{index}"} if dice.random() < 0.004 else {}
    document = pod_document(
        name,
        units,
        whole=int(whole),
        node=node,
        record=record,
        annotations=annotations,
        phase="Running",
        namespace=space,
        uid=f"{node}-{index}-{suffix}",
        creationTimestamp=f"2026-01-{dice.randrange(1, 5):02d}T{dice.randrange(24):02d}:15:00Z",
        labels={"app": work, "team": space},
        ownerReferences=[{"kind": "ReplicaSet", "name": f"{work}-7d9f", "uid": "u", "controller": True}],
    )
    if whole:
        document["metadata"]["annotations"][CARD_MODE] = "whole"
    return msgspec.convert(document, Pod)
