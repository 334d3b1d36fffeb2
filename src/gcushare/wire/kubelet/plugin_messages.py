"""The kubelet's large messages on the hot path: encoded and decoded without an object per device.

How large a list may be: ``device_ids``.

A node may have hundreds of thousands of ids. The list is encoded by joining bytes. A request is read by slicing with a
stride, because all our entries have the same length: five bytes with a short id. If a request also has ids of four
characters, its short ids are padded first, to six bytes per entry. Other requests (ids of another layout, fields in
another order) are decoded with the generated messages, which is slower.

Source: ``wire/protos/deviceplugin.proto``. The kubelet treats an id as unhealthy unless its health is "Healthy".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, groupby, islice

from gcushare.core.cards import MAX_CARDS
from gcushare.core.errors import RemoteContractError
from gcushare.core.wording import counted
from gcushare.vendors.neighbours import explain_foreign_id
from gcushare.wire.kubelet.device_ids import (
    CARD_OF_FIRST_BYTE,
    ID_LENGTH,
    NO_CARD,
    are_own_ids,
    encode_whole_card_id,
    is_device_id,
)
from gcushare.wire.protos import deviceplugin_pb2, services
from gcushare.wire.protos.services import read_message, read_varint

_AVAILABLE_TAG, _MUST_INCLUDE_TAG, _SIZE_TAG = b"\x0a", b"\x12", 0x18
_SHORT, _LONG = bytes([ID_LENGTH]), bytes([ID_LENGTH + 1])
_PAD = b" "
"""Represents page 0 in a padded entry. None of our ids contains a space."""
_HEALTHY = b"\x12\x07Healthy"
_IS_CARD = tuple(bytes(code == index for code in range(256)) for index in range(MAX_CARDS))


def encode_devices(ids: Sequence[str], *, is_healthy: bool) -> bytes:
    """Encode ids as a part of a ListAndWatchResponse. Concatenated parts make one message.

    An unhealthy id has no text: "Unhealthy" would carry the message of a full node over the kubelet's limit.
    """
    health = _HEALTHY if is_healthy else b""
    if len("".join(ids)) == ID_LENGTH * len(ids):
        return _encode_of_one_length(ids, health)
    return b"".join(_encode_of_one_length(list(group), health) for _, group in groupby(ids, key=len))


def _encode_of_one_length(ids: Sequence[str], health: bytes) -> bytes:
    if not ids:
        return b""
    id_head = b"\x0a" + bytes([len(ids[0])])
    head = b"\x0a" + bytes([len(id_head) + len(ids[0]) + len(health)]) + id_head
    return head + (health + head).join([device_id.encode() for device_id in ids]) + health


def encode_whole_card_list(numa_nodes: Mapping[int, int | None], healthy: Collection[int]) -> bytes:
    """Encode a ListAndWatchResponse of whole cards: each index with its NUMA node, if known, and its health."""
    message = deviceplugin_pb2.ListAndWatchResponse()
    for index, numa_node in sorted(numa_nodes.items()):
        health = services.HEALTHY if index in healthy else services.UNHEALTHY
        device = message.devices.add(ID=encode_whole_card_id(index), health=health)
        if numa_node is not None:
            device.topology.nodes.add(ID=numa_node)
    return message.SerializeToString()


@dataclass(frozen=True, slots=True)
class DeviceIds:
    """A list of device ids, in the kubelet's encoding.

    ``run`` has the entries (tag, length, id) of all ids of this layout: five bytes each if all are short. If
    ``is_padded``, six bytes each, with a space before a short id. ``foreign`` are ids of other layouts.
    """

    run: bytes
    foreign: tuple[str, ...] = ()
    is_padded: bool = False

    def __len__(self) -> int:
        return len(self.run) // self._stride + len(self.foreign)

    @property
    def _stride(self) -> int:
        return _PADDED_STRIDE if self.is_padded else _STRIDE

    def card_of_each(self) -> bytes:
        """One byte for each id of this layout: its card index."""
        stride = self._stride
        return self.run[stride - ID_LENGTH :: stride].translate(CARD_OF_FIRST_BYTE)

    def count_by_card(self) -> dict[int, int]:
        """The number of ids by card index, without cards that have none."""
        cards, counts = self.card_of_each(), dict[int, int]()
        left = len(cards)
        for index in range(MAX_CARDS):
            if not left:
                break
            if count := cards.count(index):
                counts[index] = count
                left -= count
        return counts

    def of_card(self, card_index: int, limit: int) -> list[bytes]:
        """Up to ``limit`` entries (tag, length, id) of one card, in the received order."""
        run, stride = self.run, self._stride
        mask = self.card_of_each().translate(_IS_CARD[card_index])
        positions = islice(compress(range(0, len(run), stride), mask), limit)
        entries = [run[position : position + stride] for position in positions]
        if self.is_padded:
            entries = [entry if entry[2:3] != _PAD else entry[:1] + _SHORT + entry[3:] for entry in entries]
        return entries

    def first(self, limit: int) -> list[str]:
        """Some of the ids as text, for a log."""
        return DeviceIds(self.run[: limit * self._stride], self.foreign[:limit], self.is_padded).text()[:limit]

    def text(self) -> list[str]:
        """All ids as text. Creates an object per id, so do not use it on the hot path."""
        run, stride = self.run, self._stride
        ours = [run[position + 2 : position + stride].decode().lstrip() for position in range(0, len(run), stride)]
        return [*ours, *self.foreign]

    def __add__(self, other: DeviceIds) -> DeviceIds:
        is_padded = self.is_padded or other.is_padded
        runs = (each.run if each.is_padded == is_padded else pad_short_ids(each.run) for each in (self, other))
        return DeviceIds(b"".join(runs), self.foreign + other.foreign, is_padded)


NO_IDS = DeviceIds(b"")
_STRIDE = 2 + ID_LENGTH
_PADDED_STRIDE = _STRIDE + 1


def pad_short_ids(run: bytes, prefix: bytes = _AVAILABLE_TAG + _SHORT, padded: bytes = _AVAILABLE_TAG + _LONG) -> bytes:
    """Pad the entries that begin with ``prefix`` to the length of those that begin with ``padded``.

    Our ids have only printable characters, so a prefix, which contains a tag, never occurs within an id. The caller
    checks the characters afterwards.
    """
    return run.replace(prefix, padded + _PAD)


@dataclass(frozen=True, slots=True)
class PreferredRequest:
    """One container's GetPreferredAllocation: choose ``size`` ids, including ``must_include``."""

    available: DeviceIds
    must_include: DeviceIds
    size: int


def decode_preferred_request(body: bytes) -> list[PreferredRequest]:
    """Read a PreferredAllocationRequest: one entry per container.

    Raises:
        RemoteContractError: not such a message.
    """
    requests = [_read_container(part) for part in _containers(body)]
    if any(request is None for request in requests):
        message = read_message(deviceplugin_pb2.PreferredAllocationRequest, body)
        return [
            PreferredRequest(
                device_ids(container.available_deviceIDs),
                device_ids(container.must_include_deviceIDs),
                container.allocation_size,
            )
            for container in message.container_requests
        ]
    return [request for request in requests if request is not None]


def decode_allocate_request(body: bytes) -> list[DeviceIds]:
    """Read an AllocateRequest: the ids of each container.

    Raises:
        RemoteContractError: not such a message.
    """
    requests = [_read_container(part) for part in _containers(body)]
    if any(request is None or request.size or len(request.must_include) for request in requests):
        allocate = read_message(deviceplugin_pb2.AllocateRequest, body)
        return [device_ids(container.devices_ids) for container in allocate.container_requests]
    return [request.available for request in requests if request is not None]


def encode_preferred_response(entries: Sequence[Sequence[bytes]]) -> bytes:
    """Write a PreferredAllocationResponse from each container's entries, as ``DeviceIds.of_card`` gives them."""
    message = bytearray()
    for container in entries:
        ids = b"".join(container)
        message += b"\x0a" + _varint(len(ids)) + ids
    return bytes(message)


def encode_id_entry(device_id: str) -> bytes:
    """Encode one id as an entry of a preferred answer: tag, length, text."""
    encoded = device_id.encode()
    return b"\x0a" + bytes([len(encoded)]) + encoded


def _containers(body: bytes) -> list[bytes]:
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        if body[position] != _AVAILABLE_TAG[0]:
            raise RemoteContractError(
                f"the kubelet's request has field {body[position] >> 3}; expected containers only"
            )
        length, start = read_varint(body, position + 1, len(body))
        position = start + length
        if position > len(body):
            raise RemoteContractError(f"the kubelet's request ends after {len(body)} bytes; {position} were announced")
        parts.append(body[start:position])
    return parts


def _read_container(part: bytes) -> PreferredRequest | None:
    """One container of a preferred or Allocate request. The latter has only ids, with the tag of ``available``."""
    found = _read_entries(part, is_padded=False)
    if found is not None or not _has_long_ids(part):
        return found
    padded = pad_short_ids(part)
    padded = pad_short_ids(padded, _MUST_INCLUDE_TAG + _SHORT, _MUST_INCLUDE_TAG + _LONG)
    return _read_entries(padded, is_padded=True)


def _has_long_ids(part: bytes) -> bool:
    """Whether there are ids of four characters, and none of them begins with the pad (such an id is not ours)."""
    heads = (_AVAILABLE_TAG + _LONG, _MUST_INCLUDE_TAG + _LONG)
    return any(head in part for head in heads) and not any(head + _PAD in part for head in heads)


def _read_entries(part: bytes, *, is_padded: bool) -> PreferredRequest | None:
    available_end = _run_end(part, 0, _AVAILABLE_TAG, is_padded=is_padded)
    must_end = _run_end(part, available_end, _MUST_INCLUDE_TAG, is_padded=is_padded)
    size = 0
    if must_end < len(part):
        if part[must_end] != _SIZE_TAG:
            return None
        size, end = read_varint(part, must_end + 1, len(part))
        if end != len(part):
            return None
    available, must = part[:available_end], part[available_end:must_end]
    if not (_are_ours(available, is_padded=is_padded) and _are_ours(must, is_padded=is_padded)):
        return None
    stride = _PADDED_STRIDE if is_padded else _STRIDE
    retagged = bytearray(must)
    retagged[::stride] = _AVAILABLE_TAG * (len(must) // stride)  # the tag of every answer
    return PreferredRequest(DeviceIds(available, (), is_padded), DeviceIds(bytes(retagged), (), is_padded), size)


def _run_end(part: bytes, start: int, tag: bytes, *, is_padded: bool) -> int:
    """The end of the contiguous entries of one field, from ``start`` on."""
    stride, length = (_PADDED_STRIDE, _LONG) if is_padded else (_STRIDE, _SHORT)
    stop = start + (len(part) - start) // stride * stride
    tags, lengths = part[start:stop:stride], part[start + 1 : stop : stride]
    entries = min(len(tags) - len(tags.lstrip(tag)), len(lengths) - len(lengths.lstrip(length)))
    return start + entries * stride


def _are_ours(run: bytes, *, is_padded: bool) -> bool:
    stride = _PADDED_STRIDE if is_padded else _STRIDE
    first = stride - ID_LENGTH
    pages = run[2::stride].replace(_PAD, b"") if is_padded else b""
    return NO_CARD not in run[first::stride].translate(CARD_OF_FIRST_BYTE) and are_own_ids(
        pages, run[first + 1 :: stride], run[first + 2 :: stride]
    )


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def device_ids(ids: Iterable[str]) -> DeviceIds:
    """Pack ids from text. Ids of another layout go into ``foreign``."""
    ours: list[bytes] = []
    foreign: list[str] = []
    for device_id in ids:
        if is_device_id(device_id):
            ours.append(device_id.encode())
        else:
            foreign.append(device_id)
    longest = max(map(len, ours), default=ID_LENGTH)
    head = _AVAILABLE_TAG + bytes([longest])
    run = b"".join([head + device_id.rjust(longest, _PAD) for device_id in ours])
    return DeviceIds(run, tuple(foreign), longest > ID_LENGTH)


def check_no_foreign(ids: DeviceIds) -> None:
    """Refuse ids of another plugin's layout.

    Raises:
        RemoteContractError: the message has the first one, where it may be from, and what to do.
    """
    if ids.foreign:
        raise RemoteContractError(
            f"{counted(len(ids.foreign), 'device id', 'are')} not of this plugin, the first {ids.foreign[0][:80]!r}: "
            f"{explain_foreign_id(ids.foreign[0])}"
        )
