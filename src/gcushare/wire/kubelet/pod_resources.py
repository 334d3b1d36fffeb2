"""Decodes the List answer of the pod resources API: which container holds which ids of one resource.

The kubelet writes one message per id (7 MB for 262,144 ids), and the plugin lists them right after each allocation.
Generated messages would take 350 ms and 115 MB (measured), which delays the answers to the kubelet's other calls. The
entries of our ids all have the same length and the same bytes around the id, so contiguous entries are read by slicing
with a stride. If there are also ids of four characters, the entries of short ids are padded first. Everything else is
read field by field.

Source: ``wire/protos/podresources.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import CARD_OF_FIRST_BYTE, ID_LENGTH, NO_CARD, are_own_ids
from gcushare.wire.kubelet.plugin_messages import DeviceIds, device_ids, pad_short_ids
from gcushare.wire.protos.services import read_varint

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_SHORT_LENGTH = 127
"""The largest length that takes one byte in the encoding."""


@dataclass(frozen=True, slots=True)
class ContainerHolding:
    """What a container of a pod (``namespace/name``) holds: memory units, whole cards or both."""

    pod: str
    container: str
    ids: DeviceIds
    whole_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The resources to read: ``resource`` may have hundreds of thousands of ids, ``whole`` has one per card."""

    resource: str
    whole: str
    prefix: bytes
    """The bytes before a short id."""
    prefix_of_long: bytes


def decode_holdings(body: bytes, resource: str, whole: str = "") -> list[ContainerHolding]:
    """Decode a ListPodResourcesResponse: the containers that hold ids of ``resource`` or ``whole``, in its order.

    Raises:
        RemoteContractError: not such a message.
    """
    wanted = _Wanted(resource, whole, _entry_prefix(resource, ID_LENGTH), _entry_prefix(resource, ID_LENGTH + 1))
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
    found = DeviceIds(b"")
    others: list[str] = []
    whole: list[str] = []
    position = 0
    if wanted.prefix_of_long and wanted.prefix_of_long in container:
        container, found = _take_mixed(container, wanted)
    while position < len(container):
        entries = _run_of(container, position, wanted.prefix)
        if len(entries):
            found += entries
            position += len(entries) * (len(wanted.prefix) + ID_LENGTH)
            continue
        number, start, end = _field(container, position, len(container))
        if number == 1:
            name = _text(container[start:end])
        elif number == 2:
            resource, ids = _read_device(container[start:end])
            if resource == wanted.resource:
                others += ids
            elif resource == wanted.whole:
                whole += ids
        position = end
    return name, found + device_ids(others), whole


def _take_mixed(container: bytes, wanted: _Wanted) -> tuple[bytes, DeviceIds]:
    """Take the first contiguous entries, short and long ids mixed. Returns the rest of the message and the ids."""
    heads = [container.find(prefix) for prefix in (wanted.prefix, wanted.prefix_of_long)]
    start = min(head for head in heads if head >= 0)
    if not _begins_field(container, start) or wanted.prefix_of_long + b" " in container:
        return container, DeviceIds(b"")
    row = pad_short_ids(container[start:], wanted.prefix, wanted.prefix_of_long)
    entries = _run_of(row, 0, wanted.prefix_of_long)
    pads = entries.run.count(b" ")
    end = start + len(entries) * (len(wanted.prefix_of_long) + ID_LENGTH + 1) - pads
    return container[:start] + container[end:], entries


def _begins_field(container: bytes, position: int) -> bool:
    at = 0
    while at < position:
        _, _, at = _field(container, at, len(container))
    return at == position


def _run_of(container: bytes, start: int, prefix: bytes) -> DeviceIds:
    """The contiguous entries of our ids from ``start`` on; empty if there are none or if others are among them.

    The prefix ends with the length of the ids. Ids of four characters may be padded short ids.
    """
    if not prefix or not container.startswith(prefix, start):
        return DeviceIds(b"")
    length = prefix[-1]
    stride = len(prefix) + length
    count = (len(container) - start) // stride
    block = container[start : start + count * stride]
    blank = bytearray(block)
    for offset in range(len(prefix), stride):
        blank[offset::stride] = bytes(count)
    if blank != (prefix + bytes(length)) * count:
        count = next(n for n in range(count + 1) if not container.startswith(prefix, start + n * stride))
        block = container[start : start + count * stride]
    cards = block[stride - ID_LENGTH :: stride].translate(CARD_OF_FIRST_BYTE)
    if NO_CARD in cards:
        count = cards.index(NO_CARD)
        block = block[: count * stride]
    rows = [block[len(prefix) + offset :: stride] for offset in range(length)]
    pages = rows[0].replace(b" ", b"") if length > ID_LENGTH else b""
    if not are_own_ids(pages, *rows[-ID_LENGTH:]):
        return DeviceIds(b"")
    entries = bytearray((b"\x0a" + prefix[-1:] + bytes(length)) * count)
    for offset, row in enumerate(rows):
        entries[2 + offset :: 2 + length] = row
    return DeviceIds(bytes(entries), (), length > ID_LENGTH)


def _entry_prefix(resource: str, id_length: int) -> bytes:
    """The bytes before the id in an entry with one id; empty if the name is too long for one-byte lengths."""
    name = resource.encode()
    length = 2 + len(name) + 2 + id_length
    if length > _LONGEST_SHORT_LENGTH:
        return b""
    return bytes((0x12, length, 0x0A, len(name))) + name + bytes((0x12, id_length))


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
    """One field's number, and the start and end of its content. The content of a varint is its own bytes."""
    tag, start = read_varint(data, position, end)
    wire = tag & 7
    if wire == _VARINT:
        _, stop = read_varint(data, start, end)
    elif wire == _DELIMITED:
        length, start = read_varint(data, start, end)
        stop = start + length
    elif wire in _FIXED_BYTES:
        stop = start + _FIXED_BYTES[wire]
    else:
        raise RemoteContractError(f"the pod resources answer has wire type {wire} at byte {position}")
    if stop > end:
        raise RemoteContractError(f"the pod resources answer ends after {end} bytes; {stop} were announced")
    return tag >> 3, start, stop


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise RemoteContractError(f"the pod resources answer has a name that is not UTF-8: {raw[:40]!r}") from error
