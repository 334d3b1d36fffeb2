"""The inspect documents, exactly as the manual and upstream gpushare print them: one form per vendor.

Source: chapter 4 of the GCUShare manual for Enflame; Aliyun's gpushare for NVIDIA. Readers of those documents exist,
so nothing is renamed or dropped; what we add (a sick or cordoned card) appears only where it says something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from gcushare.core.cards import Health
from gcushare.core.nodes import Assignment, CardState, NodeState
from gcushare.vendors.aliyun import ALIYUN
from gcushare.vendors.enflame import ENFLAME
from gcushare.vendors.vendor import Vendor


class EnflamePod(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A pod on a card; ``used_gcu`` is what it holds of this card. ``whole`` is ours and left out for shared memory.

    So is ``unrecorded``: the node reports it, and no record of the pod does.
    """

    name: str
    namespace: str
    uid: str
    create_time: str
    used_gcu: int = msgspec.field(name="usedGCU")
    whole: bool = False
    unrecorded: bool = False


class ClosedPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """That a card takes no pods of ``use``, because containers of ``pod``, deleted by force, may still have it.

    ``until``: when it opens at the latest, in seconds since the epoch; left out while that cannot be said.
    """

    use: str
    pod: str
    until: int = 0


class EnflameDevice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A card. ``health``, ``cordoned`` and ``closed`` are ours and left out while all is well."""

    id: int
    total_gcu: int = msgspec.field(name="totalGCU")
    used_gcu: int = msgspec.field(name="usedGCU")
    available_gcu: int = msgspec.field(name="availableGCU")
    pods: list[EnflamePod]
    health: str = Health.HEALTHY.value
    cordoned: bool = False
    closed: tuple[ClosedPart, ...] = ()


class UnknownCardPod(msgspec.Struct, frozen=True, gc=False):
    """A bound pod whose cards are unknown: its record is damaged or not written yet."""

    name: str
    namespace: str
    uid: str


class EnflameNode(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node with its cards. ``unknown_cards`` is ours and left out while every pod's cards are known."""

    name: str
    total_gcu: int = msgspec.field(name="totalGCU")
    used_gcu: int = msgspec.field(name="usedGCU")
    available_gcu: int = msgspec.field(name="availableGCU")
    devices: list[EnflameDevice]
    unknown_cards: tuple[UnknownCardPod, ...] = msgspec.field(default=(), name="unknownCards")


class AliyunPod(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod on a card; ``used_gpu`` is what it holds of this card. ``whole`` is ours and left out for shared memory.

    So is ``unrecorded``: the node reports it, and no record of the pod does.
    """

    name: str
    namespace: str
    used_gpu: int = msgspec.field(name="usedGPU")
    whole: bool = False
    unrecorded: bool = False


class AliyunDevice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A card. ``health``, ``cordoned`` and ``closed`` are ours and left out while all is well."""

    id: int
    total_gpu: int = msgspec.field(name="totalGPU")
    used_gpu: int = msgspec.field(name="usedGPU")
    pods: list[AliyunPod]
    health: str = Health.HEALTHY.value
    cordoned: bool = False
    closed: tuple[ClosedPart, ...] = ()


class AliyunNode(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node with its cards. ``unknown_cards`` is ours and left out while every pod's cards are known."""

    name: str
    total_gpu: int = msgspec.field(name="totalGPU")
    used_gpu: int = msgspec.field(name="usedGPU")
    devs: list[AliyunDevice]
    unknown_cards: tuple[UnknownCardPod, ...] = msgspec.field(default=(), name="unknownCards")


_Holder = tuple[Assignment, int, bool]
NodeDocument = EnflameNode | AliyunNode
_encoder = msgspec.json.Encoder()


def node_document(vendor: Vendor, node: NodeState) -> NodeDocument:
    """Describe one node in the vendor's form. Pods stand under each card they hold, the first placed first."""
    return _FORMS[vendor.name](node)


def encode_node(vendor: Vendor, node: NodeState) -> bytes:
    """Write one node as JSON."""
    return _encoder.encode(node_document(vendor, node))


OPENING, CLOSING = b'{"nodes":[', b"]}\n"
"""What stands before and after the nodes, joined by commas: a large document can be sent node by node."""


def indent(document: bytes) -> bytes:
    """Lay a document out for people, as the manual's inspect.sh prints it."""
    return msgspec.json.format(document, indent=4) + b"\n"


def _enflame_node(node: NodeState) -> EnflameNode:
    by_card = _assignments_by_card(node)
    return EnflameNode(
        node.name,
        node.total,
        node.used,
        max(0, node.total - node.used),
        [_enflame_device(state, by_card[index]) for index, state in node.cards.items()],
        _unknown_card_pods(node),
    )


def _enflame_device(state: CardState, holders: list[_Holder]) -> EnflameDevice:
    pods = [
        EnflamePod(
            a.pod.name,
            a.pod.namespace,
            "" if a.unrecorded else a.pod.uid,
            a.pod.created,
            units,
            whole,
            a.unrecorded,
        )
        for a, units, whole in holders
    ]
    return EnflameDevice(state.index, state.total, state.held, state.free, pods, *_condition(state))


def _aliyun_node(node: NodeState) -> AliyunNode:
    by_card = _assignments_by_card(node)
    return AliyunNode(
        node.name,
        node.total,
        node.used,
        [_aliyun_device(state, by_card[index]) for index, state in node.cards.items()],
        _unknown_card_pods(node),
    )


def _aliyun_device(state: CardState, holders: list[_Holder]) -> AliyunDevice:
    pods = [AliyunPod(a.pod.name, a.pod.namespace, units, whole, a.unrecorded) for a, units, whole in holders]
    return AliyunDevice(state.index, state.total, state.held, pods, *_condition(state))


def _assignments_by_card(node: NodeState) -> dict[int, list[_Holder]]:
    """Per card index, who holds how many units of it and whether all of it, in the order of assigning."""
    held: dict[int, list[_Holder]] = {index: [] for index in node.cards}
    order = sorted(
        node.assignments.values(), key=lambda a: (a.assign_time_ns, a.pod.created, a.pod.namespace, a.pod.name)
    )
    for assignment in order:
        for grant in assignment.grants:
            units = max(grant.units, node.cards[grant.index].total) if grant.whole else grant.units
            held[grant.index].append((assignment, units, grant.whole))
    return held


def _unknown_card_pods(node: NodeState) -> tuple[UnknownCardPod, ...]:
    reported = {str(each.pod) for each in node.assignments.values() if each.unrecorded}
    pods = (each.pod for each in node.assignments.values() if not each.grants and str(each.pod) not in reported)
    return tuple(UnknownCardPod(pod.name, pod.namespace, pod.uid) for pod in sorted(pods, key=str))


def _condition(state: CardState) -> tuple[str, bool, tuple[ClosedPart, ...]]:
    if state.card is None:
        return Health.UNHEALTHY.value, False, ()
    closed = tuple(ClosedPart(each.use, each.pod, each.until) for each in state.card.closures)
    return state.card.health.value, state.card.cordoned, closed


_FORMS: Mapping[str, Callable[[NodeState], NodeDocument]] = {ENFLAME.name: _enflame_node, ALIYUN.name: _aliyun_node}
