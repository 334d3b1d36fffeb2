"""The kubelet's large messages on the hot path: bytes in, bytes out, without an object per device.

A node may have hundreds of thousands of ids. The list is encoded once per state by joining; a request is read by
slicing with a stride, since every entry of ours has the same length: five bytes with a short id. If a request has ids
of four characters too, its short ones are first padded to that length, six bytes an entry. What has neither shape
(another layout's ids, fields in another order) is read by the generated messages instead, slower and just as right.

Source: ``wire/protos/deviceplugin.proto``. An id that is not exactly "Healthy" counts as unhealthy in the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, groupby, islice

from google.protobuf.message import DecodeError

from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import (
    CARD_OF_FIRST_BYTE,
    ID_LENGTH,
    MAX_CARDS,
    NO_CARD,
    are_ids_of_ours,
    explain_foreign_id,
    is_device_id,
    list_bytes,
)
from gcushare.wire.protos import deviceplugin_pb2

_AVAILABLE_TAG, _MUST_INCLUDE_TAG, _SIZE_TAG = b"\x0a", b"\x12", 0x18
_SHORT, _LONG = bytes([ID_LENGTH]), bytes([ID_LENGTH + 1])
_PAD = b" "
"""Stands for page 0 in a padded entry; no id of ours has a space."""
_HEALTHY = b"\x12\x07Healthy"
_UNHEALTHY = b"\x12\x09Unhealthy"
_IS_CARD = tuple(bytes(code == index for code in range(256)) for index in range(MAX_CARDS))


def must_omit_unhealthy(units_by_card: Mapping[int, int], unhealthy: int, limit_bytes: int) -> bool:
    """Whether a list with so many unhealthy ids fits the kubelet's limit only without the text "Unhealthy".

    That text is two bytes longer than the other; the kubelet takes an id without any for unhealthy too.
    """
    longer = len(_UNHEALTHY) - len(_HEALTHY)
    return list_bytes(units_by_card) + unhealthy * longer > limit_bytes


def encode_devices(ids: Sequence[str], *, is_healthy: bool, omit_unhealthy: bool = False) -> bytes:
    """Encode some ids of a ListAndWatchResponse; a message is any number of such parts in a row.

    ``omit_unhealthy`` leaves the text "Unhealthy" out.
    """
    health = _HEALTHY if is_healthy else b"" if omit_unhealthy else _UNHEALTHY
    if len("".join(ids)) == ID_LENGTH * len(ids):
        return _encode_of_one_length(ids, health)
    return b"".join(_encode_of_one_length(list(group), health) for _, group in groupby(ids, key=len))


def _encode_of_one_length(ids: Sequence[str], health: bytes) -> bytes:
    if not ids:
        return b""
    id_head = b"\x0a" + bytes([len(ids[0])])
    head = b"\x0a" + bytes([len(id_head) + len(ids[0]) + len(health)]) + id_head
    return head + (health + head).join([device_id.encode() for device_id in ids]) + health


@dataclass(frozen=True, slots=True)
class DeviceIds:
    """A list of device ids as the kubelet sent it; questions are answered from the bytes.

    ``run`` holds the ids of this layout, entry after entry (tag, length, id): five bytes each if all are short. With
    ``is_padded`` six bytes each, in which a space stands before a short id. ``foreign`` are ids of other layouts.
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
        """Ids per card index; cards without ids are left out."""
        cards = self.card_of_each()
        return {index: count for index in range(MAX_CARDS) if (count := cards.count(index))}

    def of_card(self, card_index: int, limit: int) -> list[bytes]:
        """Up to ``limit`` entries (tag, length and id) of one card, in the order sent."""
        run, stride = self.run, self._stride
        mask = self.card_of_each().translate(_IS_CARD[card_index])
        positions = islice(compress(range(0, len(run), stride), mask), limit)
        entries = [run[position : position + stride] for position in positions]
        return [_without_pad(entry) for entry in entries] if self.is_padded else entries

    def first(self, limit: int) -> list[str]:
        """Some of the ids as text, for a log."""
        return DeviceIds(self.run[: limit * self._stride], self.foreign[:limit], self.is_padded).text()[:limit]

    def text(self) -> list[str]:
        """Every id as text; an object for each, so off the hot path."""
        run, stride = self.run, self._stride
        ours = [run[position + 2 : position + stride].decode().lstrip() for position in range(0, len(run), stride)]
        return [*ours, *self.foreign]

    def __add__(self, other: DeviceIds) -> DeviceIds:
        is_padded = self.is_padded or other.is_padded
        runs = (each.run if each.is_padded == is_padded else pad_short_ids(each.run) for each in (self, other))
        return DeviceIds(b"".join(runs), self.foreign + other.foreign, is_padded)


_STRIDE = 2 + ID_LENGTH
_PADDED_STRIDE = _STRIDE + 1


def _without_pad(entry: bytes) -> bytes:
    return entry if entry[2:3] != _PAD else entry[:1] + _SHORT + entry[3:]


def pad_short_ids(run: bytes, prefix: bytes = _AVAILABLE_TAG + _SHORT, padded: bytes = _AVAILABLE_TAG + _LONG) -> bytes:
    """Pad the entries that begin with ``prefix`` to the length of those that begin with ``padded``.

    Ids of ours have printable characters only, so a prefix, which has a tag, never occurs within one. The caller checks
    the characters afterwards.
    """
    return run.replace(prefix, padded + _PAD)


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
    requests = [_read_container(part) for part in _containers(body)]
    if any(request is None or request.size or len(request.must_include) for request in requests):
        return _decode_allocate_slowly(body)
    return [request.available for request in requests if request is not None]


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
    """One container of either request; an Allocate has only ids, under the tag of ``available``."""
    found = _read_entries(part, is_padded=False)
    if found is not None or not _has_long_ids(part):
        return found
    padded = pad_short_ids(part)
    padded = pad_short_ids(padded, _MUST_INCLUDE_TAG + _SHORT, _MUST_INCLUDE_TAG + _LONG)
    return _read_entries(padded, is_padded=True)


def _has_long_ids(part: bytes) -> bool:
    """Whether padding helps: not if an id of four characters begins with the pad, which is none of ours."""
    heads = (_AVAILABLE_TAG + _LONG, _MUST_INCLUDE_TAG + _LONG)
    return any(head in part for head in heads) and not any(head + _PAD in part for head in heads)


def _read_entries(part: bytes, *, is_padded: bool) -> PreferredRequest | None:
    available_end = _run_end(part, 0, _AVAILABLE_TAG, is_padded=is_padded)
    must_end = _run_end(part, available_end, _MUST_INCLUDE_TAG, is_padded=is_padded)
    size = 0
    if must_end < len(part):
        if part[must_end] != _SIZE_TAG:
            return None
        size, end = _read_varint(part, must_end + 1)
        if end != len(part):
            return None
    available, must = part[:available_end], part[available_end:must_end]
    if not (_are_ours(available, is_padded=is_padded) and _are_ours(must, is_padded=is_padded)):
        return None
    must = _with_available_tag(must, _PADDED_STRIDE if is_padded else _STRIDE)
    return PreferredRequest(DeviceIds(available, (), is_padded), DeviceIds(must, (), is_padded), size)


def _run_end(part: bytes, start: int, tag: bytes, *, is_padded: bool) -> int:
    """The end of the entries of one field that stand in a row from ``start``."""
    stride, length = (_PADDED_STRIDE, _LONG) if is_padded else (_STRIDE, _SHORT)
    stop = start + (len(part) - start) // stride * stride
    tags, lengths = part[start:stop:stride], part[start + 1 : stop : stride]
    entries = min(len(tags) - len(tags.lstrip(tag)), len(lengths) - len(lengths.lstrip(length)))
    return start + entries * stride


def _with_available_tag(run: bytes, stride: int) -> bytes:
    """The same entries under the tag of ``available``, which is also the tag of every answer."""
    rewritten = bytearray(run)
    rewritten[::stride] = _AVAILABLE_TAG * (len(run) // stride)
    return bytes(rewritten)


def _are_ours(run: bytes, *, is_padded: bool) -> bool:
    stride = _PADDED_STRIDE if is_padded else _STRIDE
    first = stride - ID_LENGTH
    pages = run[2::stride].replace(_PAD, b"") if is_padded else b""
    return NO_CARD not in run[first::stride].translate(CARD_OF_FIRST_BYTE) and are_ids_of_ours(
        pages, run[first + 1 :: stride], run[first + 2 :: stride]
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
    """Refuse ids of another plugin's layout, which must never be misread.

    Raises:
        RemoteContractError: names the first one, whose it looks like, and what to do.
    """
    if ids.foreign:
        raise RemoteContractError(
            f"{len(ids.foreign)} device ids are not of this plugin, the first {ids.foreign[0][:80]!r}: "
            f"{explain_foreign_id(ids.foreign[0])}"
        )
