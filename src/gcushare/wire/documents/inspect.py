"""The inspect documents, exactly as the manual and upstream gpushare print them: each vendor's ``InspectForm``.

Source: chapter 4 of the GCUShare manual for Enflame; Aliyun's gpushare for NVIDIA. Readers of those documents exist,
so nothing is renamed or dropped; what we add (a sick or cordoned card) appears only where it says something. Amounts
are in the node's memory unit.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import msgspec

from gcushare.core.cards import Health
from gcushare.core.nodes import Assignment, CardState, NodeState
from gcushare.vendors.vendor import Vendor

Field = tuple[str, Any] | tuple[str, Any, Any]


class ClosedPart(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """That a card takes no pods of ``use``, because containers of ``pod``, deleted by force, may still have it.

    ``until``: when it opens at the latest, in seconds since the epoch; left out while that cannot be said.
    """

    use: str
    pod: str
    until: int = 0


class UnknownCardPod(msgspec.Struct, frozen=True, gc=False):
    """A bound pod whose cards are unknown: its record is damaged or not written yet."""

    name: str
    namespace: str
    uid: str


class _Types(NamedTuple):
    """The structs of one vendor's document: a node, a card, and a pod on it."""

    node: type[msgspec.Struct]
    card: type[msgspec.Struct]
    pod: type[msgspec.Struct]


@functools.cache
def _types(word: str, cards: str, is_detailed: bool) -> _Types:
    """Build them for a vendor's device word and form: a struct is encoded in half the time of a dictionary.

    Fields without a default are the manual's and upstream gpushare's; the others are ours and left out while they say
    nothing: all is well with a card, the memory is shared, a record names the pod, every pod's cards are known.
    """

    def struct(name: str, *fields: Field) -> type[msgspec.Struct]:
        renamed = {each[0]: each[0].replace("_device", word) for each in fields}
        return msgspec.defstruct(name, fields, rename=renamed, frozen=True, gc=False, omit_defaults=True)

    text = [("name", str), ("namespace", str)]
    identity = [("uid", str), ("createTime", str)] if is_detailed else []
    amounts = [("total_device", int), ("used_device", int), *([("available_device", int)] if is_detailed else [])]
    pod = struct("Pod", *text, *identity, ("used_device", int), ("whole", bool, False), ("unrecorded", bool, False))
    health = [("health", str, Health.HEALTHY.value), ("cordoned", bool, False), ("closed", tuple[ClosedPart, ...], ())]
    card = struct("Card", ("id", int), *amounts, ("pods", list), *health)
    unknown = ("unknownCards", tuple[UnknownCardPod, ...], ())
    return _Types(struct("Node", ("name", str), *amounts, (cards, list), unknown), card, pod)


_Holder = tuple[Assignment, int, bool]
_encoder = msgspec.json.Encoder()


def encode_node(vendor: Vendor, node: NodeState) -> bytes:
    """Write one node as JSON in the vendor's form. Pods stand under each card they hold, the first placed first."""
    form = vendor.inspect
    make_node, make_card, make_pod = _types(vendor.device_word, form.cards, form.is_detailed)
    by_card = _assignments_by_card(node)
    cards = []
    for index, state in node.cards.items():
        holders = by_card[index]
        if form.is_detailed:
            pods = [
                make_pod(
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
            cards.append(make_card(state.index, state.total, state.held, state.free, pods, *_condition(state)))
        else:
            pods = [make_pod(a.pod.name, a.pod.namespace, units, whole, a.unrecorded) for a, units, whole in holders]
            cards.append(make_card(state.index, state.total, state.held, pods, *_condition(state)))
    available = (max(0, node.total - node.used),) if form.is_detailed else ()
    return _encoder.encode(make_node(node.name, node.total, node.used, *available, cards, _unknown_card_pods(node)))


OPENING, CLOSING = b'{"nodes":[', b"]}\n"
"""What stands before and after the nodes, joined by commas: a large document can be sent node by node."""


def indent(document: bytes) -> bytes:
    """Lay a document out for people, as the manual's inspect.sh prints it."""
    return msgspec.json.format(document, indent=4) + b"\n"


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
