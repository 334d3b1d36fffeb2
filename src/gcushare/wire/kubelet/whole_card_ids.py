"""Device ids of whole cards: one device per card. There are few, so generated messages are fast enough.

An id is ``card-`` and the index. It is longer than the id of a memory unit, so the two cannot be confused.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare.core.bounds import MAX_CARDS
from gcushare.core.cards import Card
from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import explain_foreign_id
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services

_PREFIX = "card-"
_IDS = frozenset(f"{_PREFIX}{index}" for index in range(MAX_CARDS))


def encode_whole_card_id(index: int) -> str:
    return f"{_PREFIX}{index}"


def is_whole_card_id(device_id: str) -> bool:
    """Whether an id names a whole card of ours."""
    return device_id in _IDS


def decode_whole_card_id(device_id: str) -> int:
    """Read the card's index.

    Raises:
        RemoteContractError: not such an id; the message says where it may be from.
    """
    if not is_whole_card_id(device_id):
        raise RemoteContractError(f"device id {device_id[:80]!r} is not a whole card: {explain_foreign_id(device_id)}")
    return int(device_id.removeprefix(_PREFIX))


def encode_whole_card_list(cards: Iterable[tuple[Card, bool]]) -> bytes:
    """Encode a ListAndWatchResponse: each card with its health and, if known, its NUMA node."""
    message = pb.ListAndWatchResponse()
    for card, is_healthy in cards:
        health = services.HEALTHY if is_healthy else services.UNHEALTHY
        device = message.devices.add(ID=encode_whole_card_id(card.index), health=health)
        if card.numa_node is not None:
            device.topology.nodes.add(ID=card.numa_node)
    return message.SerializeToString()


def encode_id_entry(device_id: str) -> bytes:
    """Encode one id as an entry of a preferred answer: tag, length, text."""
    encoded = device_id.encode()
    return b"\x0a" + bytes([len(encoded)]) + encoded
