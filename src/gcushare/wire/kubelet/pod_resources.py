"""The pod resources API's List answer, read as bytes: who holds which ids of one resource.

The kubelet writes one message per id, 7 MB for 262,144 of them, and is asked within milliseconds of each allocation.
Generated messages take 350 ms and 115 MB for that (measured), too much beside calls that have to be answered at once.
Entries of our own ids all have the same length and the same bytes around the id, so a run of them is read by slicing
with a stride; what does not have that shape is read field by field.

Source: ``wire/protos/podresources.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import CARD_OF_FIRST_BYTE, ID_LENGTH, NO_CARD, are_ids_of_ours
from gcushare.wire.kubelet.device_lists import DeviceIds, device_ids

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_SHORT_LENGTH = 127
"""The largest length that is one byte on the wire."""


@dataclass(frozen=True, slots=True)
class ContainerHolding:
    """What one container of one pod (``namespace/name``) holds: units of memory, or whole cards; never nothing."""

    pod: str
    container: str
    ids: DeviceIds
    whole_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The resources that are read: ids of the first come by the hundred thousand, of the second by the card."""

    resource: str
    whole: str
    prefix: bytes


def decode_holdings(body: bytes, resource: str, whole: str = "") -> list[ContainerHolding]:
    """Read a ListPodResourcesResponse: the containers that hold ids of ``resource`` or of ``whole``, in its order.

    Raises:
        RemoteContractError: not such a message.
    """
    wanted = _Wanted(resource, whole, _entry_prefix(resource))
    holdings: list[ContainerHolding] = []
    for number, start, end in _fields(body, 0, len(body)):
        if number == 1:
            holdings += _read_pod(body[start:end], wanted)
    return holdings


def _read_pod(pod: bytes, wanted: _Wanted) -> list[ContainerHolding]:
    name = namespace = ""
    containers: list[tuple[str, DeviceIds, list[str]]] = []
    for number, start, end in _fields(pod, 0, len(pod)):
        if number == 1:
            name = _text(pod[start:end])
        elif number == 2:
            namespace = _text(pod[start:end])
        elif number == 3:
            containers.append(_read_container(pod[start:end], wanted))
    key = f"{namespace}/{name}"
    return [
        ContainerHolding(key, container, ids, tuple(whole)) for container, ids, whole in containers if len(ids) or whole
    ]


def _read_container(container: bytes, wanted: _Wanted) -> tuple[str, DeviceIds, list[str]]:
    name = ""
    run = bytearray()
    others: list[str] = []
    whole: list[str] = []
    prefix = wanted.prefix
    position = 0
    while position < len(container):
        entries = _run_of(container, position, prefix)
        if entries:
            run += entries.run
            position += len(entries) * (len(prefix) + ID_LENGTH)
            continue
        number, start, end = _field(container, position, len(container))
        if number == 1:
            name = _text(container[start:end])
        elif number == 2:
            found, ids = _read_device(container[start:end])
            if found == wanted.resource:
                others += ids
            elif found == wanted.whole:
                whole += ids
        position = end
    rest = device_ids(others)
    return name, DeviceIds(bytes(run) + rest.run, rest.foreign), whole


def _run_of(container: bytes, start: int, prefix: bytes) -> DeviceIds:
    """The entries of our ids that stand in a row from ``start``; empty where there are none or others among them."""
    stride = len(prefix) + ID_LENGTH
    count = (len(container) - start) // stride
    if not prefix or not count or not container.startswith(prefix, start):
        return DeviceIds(b"")
    block = container[start : start + count * stride]
    blank = bytearray(block)
    for offset in range(len(prefix), stride):
        blank[offset::stride] = bytes(count)
    if blank != (prefix + bytes(ID_LENGTH)) * count:
        count = next(n for n in range(count + 1) if not container.startswith(prefix, start + n * stride))
        block = container[start : start + count * stride]
    cards = block[len(prefix) :: stride].translate(CARD_OF_FIRST_BYTE)
    if NO_CARD in cards:
        count = cards.index(NO_CARD)
        block = block[: count * stride]
    if not are_ids_of_ours(block[len(prefix) + 1 :: stride], block[len(prefix) + 2 :: stride]):
        return DeviceIds(b"")
    entries = bytearray(b"\x0a\x03\0\0\0" * count)
    for offset in range(ID_LENGTH):
        entries[2 + offset :: 2 + ID_LENGTH] = block[len(prefix) + offset :: stride]
    return DeviceIds(bytes(entries))


def _entry_prefix(resource: str) -> bytes:
    """The bytes before the id of an entry with one id of ours; empty for a name too long for the short form."""
    name = resource.encode()
    length = 2 + len(name) + 2 + ID_LENGTH
    if length > _LONGEST_SHORT_LENGTH:
        return b""
    return bytes((0x12, length, 0x0A, len(name))) + name + bytes((0x12, ID_LENGTH))


def _read_device(device: bytes) -> tuple[str, list[str]]:
    name = ""
    ids: list[str] = []
    for number, start, end in _fields(device, 0, len(device)):
        if number == 1:
            name = _text(device[start:end])
        elif number == 2:
            ids.append(_text(device[start:end]))
    return name, ids


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    while position < end:
        number, start, position = _field(data, position, end)
        yield number, start, position


def _field(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """One field's number, and where its content starts and ends; a number's own bytes are its content."""
    tag, start = _varint(data, position, end)
    wire = tag & 7
    if wire == _VARINT:
        _, stop = _varint(data, start, end)
    elif wire == _DELIMITED:
        length, start = _varint(data, start, end)
        stop = start + length
    elif wire in _FIXED_BYTES:
        stop = start + _FIXED_BYTES[wire]
    else:
        raise RemoteContractError(f"the pod resources answer has wire type {wire} at byte {position}")
    if stop > end:
        raise RemoteContractError(f"the pod resources answer ends after {end} bytes; {stop} were announced")
    return tag >> 3, start, stop


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise RemoteContractError(f"the pod resources answer has a broken number at byte {position}")


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise RemoteContractError(f"the pod resources answer has a name that is no text: {raw[:40]!r}") from error
