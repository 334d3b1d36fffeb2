"""What passes between a worker and its parent: lines of JSON, one answer per request, and the last call's name.

JSON into declared types, and no Python objects as ``multiprocessing`` sends: a library that writes over its worker's
memory can send wrong values, but it cannot make the parent run code. JSON has no raw line feed, so that the standard
library's readers split the messages, and bound their length.
"""

from __future__ import annotations

import enum
import mmap
import os
from typing import TypeVar

import msgspec

from gcushare.cards.errors import CallFailure, LibraryCallError
from gcushare.cards.ports import GroupMemory, HealthEvent, HealthReading
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.wire.untrusted_json import BoundedJsonDecoder, Int

MAX_LINE_BYTES = 1 << 20
"""No answer is near this: a longer one means that a library wrote over the worker's memory."""
_MAX_TEXT = 500
"""Characters of each text of a failure that go into messages."""

_NAME_BYTES = 64
_NO_CALL = "(before the first)"

T = TypeVar("T")


class Operation(enum.Enum):
    """What a parent may ask for, with the type of the result."""

    COUNT = "count"  # int
    DESCRIBE = "describe"  # CardAnswer without a reading
    READ = "read"  # CardAnswer
    EVENT = "event"  # EventAnswer
    LINK = "link"  # bool
    GROUP_MEMORY = "groupMemory"  # GroupAnswer
    LIMIT_GROUP = "limitGroup"  # GroupAnswer


class WorkerRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call. ``slot`` is a position in the library's list, for DESCRIBE and READ; ``timeout_s`` is for EVENT.

    The other calls name cards by ``uuids``, because each process of a library has numbers of its own: it has to have
    read a card before. ``group`` is the path of a control group, ``hard_bytes`` its limit, None for none.
    """

    operation: Operation
    slot: Int = 0
    uuids: tuple[str, ...] = ()
    timeout_s: float = 0.0
    group: str = ""
    hard_bytes: Int | None = None


class Opened(msgspec.Struct, frozen=True):
    """A worker's first answer, without a request: the library is open."""

    library: str
    driver: str


class CardAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The card at a slot, or why it is left out, without a uuid if the library does not say which card it is."""

    card: Card | None = None
    left_out: LeftOutCard | None = None
    reading: HealthReading | None = None
    use: CardUse | None = None


class EventAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to EVENT."""

    event: HealthEvent | None = None


class GroupAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to GROUP_MEMORY and LIMIT_GROUP."""

    memory: GroupMemory | None = None


class WorkerAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A result, or the message of a ``DeviceError``; ``call`` is set if a vendor's function answered with a code."""

    result: msgspec.Raw = msgspec.Raw()
    failure: str | None = None
    call: CallFailure | None = None


REQUEST = BoundedJsonDecoder(WorkerRequest, "a request to a worker", limit_bytes=MAX_LINE_BYTES)
ANSWER = BoundedJsonDecoder(WorkerAnswer, "a worker's answer", limit_bytes=MAX_LINE_BYTES)


def encode_line(message: WorkerRequest | WorkerAnswer) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def encode_result(result: object) -> bytes:
    return encode_line(WorkerAnswer(result=msgspec.Raw(msgspec.json.encode(result))))


def encode_failure(error: DeviceError) -> bytes:
    """Encode a failure; ``decode_answer`` raises it again, with the code if a function of the library answered so."""
    call = error.failure if isinstance(error, LibraryCallError) else None
    return encode_line(WorkerAnswer(failure=str(error), call=call))


def decode_answer(line: bytes, result_type: type[T]) -> T:
    """Decode a result.

    Raises:
        DeviceError: the worker's failure.
        RemoteContractError: the line is not an answer of this type.
    """
    try:
        answer = ANSWER.read(line)
        if answer.failure is None:
            return BoundedJsonDecoder(result_type, "a result", limit_bytes=MAX_LINE_BYTES).read(answer.result)
    except RemoteContractError as error:
        raise RemoteContractError(f"worker answered {line[:100]!r}: {error}") from error
    message = _one_line(answer.failure)
    if (call := answer.call) is not None:
        texts = {name: _one_line(getattr(call, name)) for name in ("call", "code_name", "detail")}
        raise LibraryCallError(msgspec.structs.replace(call, **texts))
    raise DeviceError(message)


def _one_line(text: str) -> str:
    """Bound a text of the worker, or of the library in it, and put it on one line."""
    return " ".join(text[:_MAX_TEXT].split())


class CallRecorder:
    """The name of the last library call, in a shared memory file that outlives the worker.

    The parent creates it, and the worker opens it by its descriptor. The worker writes the name before each call, which
    copies 64 bytes. The parent reads it after a hang or a crash, to report which function it was.
    """

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _NAME_BYTES)

    @staticmethod
    def create_file() -> int:
        """Create the shared file; close its descriptor once the worker and the recorder have opened it."""
        descriptor = os.memfd_create("gcushare-call", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _NAME_BYTES)
        return descriptor

    def record(self, name: str) -> None:
        self._memory[:] = name.encode()[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0")

    def last_call(self) -> str:
        return self._memory[:].rstrip(b"\0").decode(errors="replace") or _NO_CALL

    def close(self) -> None:
        self._memory.close()
