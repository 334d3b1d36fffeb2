"""The kubelet's large messages on the hot path: bytes in, bytes out, without an object per device.

A node may have 262,144 ids. The list is encoded once per state by joining; a request is read by slicing with a
stride, since every id of ours is three bytes: five bytes an entry. What does not have that shape (another layout's ids,
fields in another order) is read by the generated messages instead, slower and just as right.

Source: ``wire/protos/deviceplugin.proto``. An id that is not exactly "Healthy" counts as unhealthy in the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, islice

from google.protobuf.message import DecodeError

from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import (
    CARD_OF_FIRST_BYTE,
    DEVICE_BYTES,
    ID_LENGTH,
    KUBELET_MESSAGE_LIMIT_BYTES,
    MAX_CARDS,
    NO_CARD,
    are_ids_of_ours,
    explain_foreign_id,
    is_device_id,
)
from gcushare.wire.protos import deviceplugin_pb2

_STRIDE = 2 + ID_LENGTH
_AVAILABLE_TAG, _MUST_INCLUDE_TAG, _SIZE_TAG = b"\x0a", b"\x12", 0x18
_ID_LENGTH_BYTE = bytes([ID_LENGTH])
_ID_HEAD = b"\x0a" + _ID_LENGTH_BYTE
_HEALTHY = b"\x12\x07Healthy"
_UNHEALTHY = b"\x12\x09Unhealthy"
_IS_CARD = tuple(bytes(code == index for code in range(256)) for index in range(MAX_CARDS))


def must_be_brief(healthy: int, unhealthy: int) -> bool:
    """Whether a list of so many ids only fits the kubelet's limit without the word for unhealthy.

    That word is two bytes longer than the other; an id without it is unhealthy for the kubelet too.
    """
    longer = len(_UNHEALTHY) - len(_HEALTHY)
    return healthy * DEVICE_BYTES + unhealthy * (DEVICE_BYTES + longer) > KUBELET_MESSAGE_LIMIT_BYTES


def encode_devices(ids: Sequence[str], *, is_healthy: bool, is_brief: bool = False) -> bytes:
    """Encode some ids of a ListAndWatchResponse; a message is any number of such parts in a row.

    ``is_brief`` leaves the word for unhealthy out.
    """
    if not ids:
        return b""
    health = _HEALTHY if is_healthy else b"" if is_brief else _UNHEALTHY
    head = b"\x0a" + bytes([len(_ID_HEAD) + ID_LENGTH + len(health)]) + _ID_HEAD
    return head + (health + head).join([device_id.encode() for device_id in ids]) + health


@dataclass(frozen=True, slots=True)
class DeviceIds:
    """A list of device ids as the kubelet sent it, questions to which are answered from the bytes.

    ``run`` holds the ids of this layout, five bytes an entry; ``foreign`` the others, of another plugin's layout.
    """

    run: bytes
    foreign: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.run) // _STRIDE + len(self.foreign)

    def card_of_each(self) -> bytes:
        """One byte for each id of this layout: its card index."""
        return self.run[2::_STRIDE].translate(CARD_OF_FIRST_BYTE)

    def count_by_card(self) -> dict[int, int]:
        """Ids per card index; cards without ids are left out."""
        cards = self.card_of_each()
        return {index: count for index in range(MAX_CARDS) if (count := cards.count(index))}

    def positions_of_card(self, card_index: int) -> Iterable[int]:
        """Byte offsets in ``run`` of the entries of one card."""
        mask = self.card_of_each().translate(_IS_CARD[card_index])
        return compress(range(0, len(self.run), _STRIDE), mask)

    def of_card(self, card_index: int, limit: int) -> list[bytes]:
        """Up to ``limit`` entries (tag, length and id) of one card, in the order sent."""
        run = self.run
        return [run[position : position + _STRIDE] for position in islice(self.positions_of_card(card_index), limit)]

    def first(self, limit: int) -> list[str]:
        """Some of the ids as text, for a log."""
        return DeviceIds(self.run[: limit * _STRIDE], self.foreign[:limit]).text()[:limit]

    def text(self) -> list[str]:
        """Every id as text; an object for each, so off the hot path."""
        run = self.run
        ours = [run[position + 2 : position + _STRIDE].decode() for position in range(0, len(run), _STRIDE)]
        return [*ours, *self.foreign]


@dataclass(frozen=True, slots=True)
class PreferredRequest:
    """One container's GetPreferredAllocation: ``size`` ids wanted, the ``must_include`` ones among them."""

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
        return _decode_preferred_slowly(body)
    return [request for request in requests if request is not None]


def decode_allocate_request(body: bytes) -> list[DeviceIds]:
    """Read an AllocateRequest: the ids of each container.

    Raises:
        RemoteContractError: not such a message.
    """
    runs: list[DeviceIds] = []
    for part in _containers(body):
        length = _run_length(part, 0, _AVAILABLE_TAG)
        if length != len(part) or not _are_ours(part):
            return _decode_allocate_slowly(body)
        runs.append(DeviceIds(part))
    return runs


def encode_preferred_response(entries: Sequence[Sequence[bytes]]) -> bytes:
    """Write a PreferredAllocationResponse from each container's entries, as ``DeviceIds.of_card`` gives them."""
    message = bytearray()
    for container in entries:
        ids = b"".join(container)
        message += b"\x0a" + _varint(len(ids)) + ids
    return bytes(message)


def _containers(body: bytes) -> list[bytes]:
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        if body[position] != _AVAILABLE_TAG[0]:
            raise RemoteContractError(
                f"the kubelet's request has field {body[position] >> 3}; expected containers only"
            )
        length, start = _read_varint(body, position + 1)
        position = start + length
        if position > len(body):
            raise RemoteContractError(f"the kubelet's request ends after {len(body)} bytes; {position} were announced")
        parts.append(body[start:position])
    return parts


def _read_container(part: bytes) -> PreferredRequest | None:
    available_end = _run_length(part, 0, _AVAILABLE_TAG)
    must_end = _run_length(part, available_end, _MUST_INCLUDE_TAG)
    size = 0
    if must_end < len(part):
        if part[must_end] != _SIZE_TAG:
            return None
        size, end = _read_varint(part, must_end + 1)
        if end != len(part):
            return None
    available, must = part[:available_end], part[available_end:must_end]
    if not (_are_ours(available) and _are_ours(must)):
        return None
    return PreferredRequest(DeviceIds(available), DeviceIds(_with_tag(must)), size)


def _run_length(part: bytes, start: int, tag: bytes) -> int:
    """The end of the entries of one field that stand in a row from ``start``."""
    stop = start + (len(part) - start) // _STRIDE * _STRIDE
    tags, lengths = part[start:stop:_STRIDE], part[start + 1 : stop : _STRIDE]
    entries = min(len(tags) - len(tags.lstrip(tag)), len(lengths) - len(lengths.lstrip(_ID_LENGTH_BYTE)))
    return start + entries * _STRIDE


def _with_tag(run: bytes) -> bytes:
    """The same entries under the tag of ``available``, which is also the tag of every answer."""
    rewritten = bytearray(run)
    rewritten[::_STRIDE] = _AVAILABLE_TAG * (len(run) // _STRIDE)
    return bytes(rewritten)


def _are_ours(run: bytes) -> bool:
    return NO_CARD not in run[2::_STRIDE].translate(CARD_OF_FIRST_BYTE) and are_ids_of_ours(
        run[3::_STRIDE], run[4::_STRIDE]
    )


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise RemoteContractError(f"the kubelet's request has a broken number at byte {position}")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _decode_preferred_slowly(body: bytes) -> list[PreferredRequest]:
    message = deviceplugin_pb2.PreferredAllocationRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise RemoteContractError(f"the kubelet's GetPreferredAllocation request cannot be read: {error}") from error
    return [
        PreferredRequest(
            device_ids(container.available_deviceIDs),
            device_ids(container.must_include_deviceIDs),
            container.allocation_size,
        )
        for container in message.container_requests
    ]


def _decode_allocate_slowly(body: bytes) -> list[DeviceIds]:
    message = deviceplugin_pb2.AllocateRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise RemoteContractError(f"the kubelet's Allocate request cannot be read: {error}") from error
    return [device_ids(container.devices_ids) for container in message.container_requests]


def device_ids(ids: Iterable[str]) -> DeviceIds:
    """Pack ids given as text, sorting out those of another layout."""
    run = bytearray()
    foreign: list[str] = []
    for device_id in ids:
        if is_device_id(device_id):
            run += _ID_HEAD + device_id.encode()
        else:
            foreign.append(device_id)
    return DeviceIds(bytes(run), tuple(foreign))


def check_no_foreign(ids: DeviceIds) -> None:
    """Refuse ids of another plugin's layout, which must never be misread.

    Raises:
        RemoteContractError: names the first one, whose it looks like, and what to do.
    """
    if ids.foreign:
        raise RemoteContractError(
            f"{len(ids.foreign)} device ids are not of this plugin, the first {ids.foreign[0][:80]!r}: "
            f"{explain_foreign_id(ids.foreign[0])}"
        )
