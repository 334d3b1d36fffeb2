"""What a worker and its parent say to each other: length-prefixed JSON, one answer per request.

Pure codecs; ``main`` and ``process`` do the reading and writing.
"""

from __future__ import annotations

import enum
import struct
from typing import TypeVar

import msgspec

from gcushare.cards.errors import CallFailure, LibraryCallError, LibraryMissingError
from gcushare.cards.ports import HealthEvent, LinkLevel
from gcushare.core.cards import Card, LeftOutCard
from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.wire.untrusted_json import BoundedJsonDecoder, Int

HEADER = struct.Struct("!I")
MAX_FRAME_BYTES = 1 << 20
"""No answer is near this: a longer one means that a library wrote over the worker's memory."""
_MAX_WORDS = 500
"""Characters of each text of a failure that go into messages."""

T = TypeVar("T")


class Operation(enum.Enum):
    """What a parent may ask for; the payload's type stands beside each."""

    COUNT = "count"  # int
    DESCRIBE = "describe"  # Described
    HEALTH = "health"  # HealthReading
    USE = "use"  # CardUse
    EVENT = "event"  # Noticed
    LINK = "link"  # Linked


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call; ``slot`` and ``other_slot`` are positions in the library's list, ``timeout_s`` is for EVENT."""

    operation: Operation
    slot: Int = 0
    other_slot: Int = 0
    timeout_s: float = 0.0


class Opened(msgspec.Struct, frozen=True):
    """A worker's first answer, unasked: the library is open."""

    library: str
    driver: str


class Described(msgspec.Struct, frozen=True, omit_defaults=True):
    """A card, or why it is left out."""

    card: Card | None = None
    left_out: LeftOutCard | None = None


class Noticed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to EVENT."""

    event: HealthEvent | None = None


class Linked(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to LINK."""

    level: LinkLevel | None = None


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A ``DeviceError`` on its way to the parent; ``call`` is set if a vendor's function answered with a code."""

    message: str
    is_missing: bool = False
    call: CallFailure | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A result or a failure."""

    result: msgspec.Raw = msgspec.Raw()
    failure: Failure | None = None


REQUEST = BoundedJsonDecoder(Request, "a request to a worker", limit_bytes=MAX_FRAME_BYTES)
ANSWER = BoundedJsonDecoder(Answer, "a worker's answer", limit_bytes=MAX_FRAME_BYTES)


def encode_frame(message: msgspec.Struct) -> bytes:
    """Write a message with its length before it."""
    body = msgspec.json.encode(message)
    return HEADER.pack(len(body)) + body


def encode_result(result: object) -> bytes:
    """Write a result as an answer."""
    return encode_frame(Answer(result=msgspec.Raw(msgspec.json.encode(result))))


def encode_failure(error: DeviceError) -> bytes:
    """Encode a failure; ``decode_answer`` raises it again as what it was."""
    if isinstance(error, LibraryCallError):
        failure = Failure(message=str(error), call=error.failure)
    else:
        failure = Failure(message=str(error), is_missing=isinstance(error, LibraryMissingError))
    return encode_frame(Answer(failure=failure))


def decode_length(header: bytes) -> int:
    """Read a frame's length.

    Raises:
        RemoteContractError: longer than ``MAX_FRAME_BYTES``.
    """
    length: int = HEADER.unpack(header)[0]
    if length > MAX_FRAME_BYTES:
        raise RemoteContractError(f"frame of {length} bytes; at most {MAX_FRAME_BYTES} are accepted")
    return length


def decode_request(body: bytes) -> Request:
    """Read a request.

    Raises:
        RemoteContractError: it is none.
    """
    return REQUEST.read(body)


def decode_answer(body: bytes, result_type: type[T]) -> T:
    """Read a result.

    Raises:
        DeviceError: the worker's failure, as the type it had there.
        RemoteContractError: the frame is no answer of this type.
    """
    try:
        answer = ANSWER.read(body)
        if answer.failure is None:
            return BoundedJsonDecoder(result_type, "a result", limit_bytes=MAX_FRAME_BYTES).read(answer.result)
    except RemoteContractError as error:
        raise RemoteContractError(f"worker answered {body[:100]!r}: {error}") from error
    raise _raised(answer.failure)


def _raised(failure: Failure) -> DeviceError:
    if (call := failure.call) is not None:
        texts = {name: _line(getattr(call, name)) for name in ("call", "code_name", "detail")}
        return LibraryCallError(msgspec.structs.replace(call, **texts))
    message = _line(failure.message)
    return LibraryMissingError(message) if failure.is_missing else DeviceError(message)


def _line(text: str) -> str:
    """The words of a worker, or of the library in it, on one line that is not too long."""
    return " ".join(text[:_MAX_WORDS].split())
