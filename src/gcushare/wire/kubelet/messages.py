"""Reads the kubelet's protobuf messages: small ones whole, by their generated types, and numbers of large ones."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from gcushare.core.errors import RemoteContractError

M = TypeVar("M", bound=Message)


def read_message(kind: type[M], body: bytes) -> M:
    """Read a message of this kind.

    Raises:
        RemoteContractError: it is none.
    """
    message = kind()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise RemoteContractError(f"the kubelet's {kind.__name__} cannot be read: {error}") from error
    return message


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a number before ``end``; returns it and the position after it.

    Raises:
        RemoteContractError: it does not end there, or has more than 64 bits.
    """
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise RemoteContractError(f"the kubelet's message has a broken number at byte {position}")
