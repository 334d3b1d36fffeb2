"""The child process that holds a vendor's library, so that its hang or crash does not stop the parent.

``python -m gcushare.cards.worker.main --parent PID --recorder FD --source JSON``, with a socket as standard input. It
opens the library and reports that, then answers one request at a time until the parent closes the socket. It has one
thread, no event loop and few imports, which keeps it small and its start short.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.libraries import LibrarySpec, create_library
from gcushare.cards.ports import CardLibrary, HealthReading, LimitingLibrary
from gcushare.cards.worker import messages
from gcushare.cards.worker.messages import CardAnswer, Operation, WorkerRequest
from gcushare.core.cards import Card, LeftOutCard
from gcushare.core.errors import DeviceError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gcushare.cards.worker.main", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    parser.add_argument("--recorder", type=int, required=True, help="descriptor of the shared call recorder")
    parser.add_argument("--source", required=True, help="the library to open, a LibrarySpec as JSON")
    arguments = parser.parse_args(argv)
    # The kernel kills this process when the parent dies, even in a hanging call. It watches the thread that started it:
    # the parent's event loop. Source: prctl(2).
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != arguments.parent:
        return 0  # the parent had died before
    # Ctrl-C in a terminal reaches the worker too, but its parent ends it. libefml uses the two user signals.
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(2, 1)  # a library's output belongs in the log
    recorder = messages.CallRecorder(arguments.recorder)
    os.close(arguments.recorder)
    spec = msgspec.json.decode(arguments.source, type=LibrarySpec)
    with socket.socket(fileno=os.dup(0)) as connection, connection.makefile("rb") as requests:
        _serve(connection, requests, create_library(spec, recorder.record))
    return 0


def _serve(connection: socket.socket, requests: BinaryIO, library: CardLibrary) -> None:
    try:
        name, driver = library.open(), ""
        with contextlib.suppress(LibraryCallError):  # without its driver's version a library can be used all the same
            driver = library.driver_version()
    except DeviceError as error:
        connection.sendall(messages.encode_failure(error))
        return
    connection.sendall(messages.encode_result(messages.Opened(library=name, driver=driver)))
    slots: dict[str, int] = {}
    with contextlib.suppress(ConnectionResetError):  # the parent closed it with an answer unread
        while line := requests.readline():
            try:
                answer = messages.encode_result(_perform(library, messages.REQUEST.read(line), slots))
            except DeviceError as error:
                answer = messages.encode_failure(error)
            connection.sendall(answer)
    library.close()


def _perform(library: CardLibrary, request: WorkerRequest, slots: dict[str, int]) -> object:
    """Answer a request; ``slots`` has those of the cards that were described, by uuid."""
    match request.operation:
        case Operation.COUNT:
            return library.card_count()
        case Operation.DESCRIBE | Operation.READ:
            answer = (
                _read(library, request.slot)
                if request.operation is Operation.READ
                else _describe(library, request.slot)
            )
            if answer.card is not None:
                slots[answer.card.uuid] = request.slot
            return answer
        case Operation.EVENT:
            return messages.EventAnswer(event=library.wait_event(request.timeout_s))
    if not all(uuid in slots for uuid in request.uuids):
        raise DeviceError(f"not listed by the library: card {' or '.join(request.uuids)}")
    asked = [slots[uuid] for uuid in request.uuids]
    if request.operation is Operation.LINK:
        return library.are_linked(*asked)
    if not isinstance(library, LimitingLibrary):
        raise DeviceError("this vendor's library keeps no memory limits")
    if request.operation is Operation.LIMIT_GROUP:
        library.limit_group(asked[0], request.group, request.hard_bytes)
    return messages.GroupAnswer(memory=library.group_memory(asked[0], request.group))


def _describe(library: CardLibrary, slot: int) -> CardAnswer:
    try:
        found = library.describe(slot)
    except DeviceError as error:
        found = LeftOutCard(index=slot, uuid="", reason=str(error))
    return CardAnswer(card=found) if isinstance(found, Card) else CardAnswer(left_out=found)


def _read(library: CardLibrary, slot: int) -> CardAnswer:
    """Describe a card, and read its health and its use; of one that does not say which it is, only an illness."""
    answer, use = _describe(library, slot), None
    if answer.left_out is not None and answer.left_out.uuid:
        return answer
    try:
        reading = library.health(slot)
    except LibraryCallError as error:
        is_lost = error.failure.is_lost
        reading = HealthReading(healthy=False, reason=str(error), conclusive=is_lost, lost=is_lost)
    if reading.healthy and answer.card is None:
        return answer
    if reading.healthy:
        with contextlib.suppress(DeviceError):  # only a report
            use = library.use(slot)
    return msgspec.structs.replace(answer, reading=reading, use=use)


if __name__ == "__main__":
    sys.exit(main())
