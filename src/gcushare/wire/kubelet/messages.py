"""Protobuf messages of the kubelet, for the calls that are small and few: read whole, by their generated types."""

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
