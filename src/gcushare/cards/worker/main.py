"""The child process that holds a vendor's library: it may hang or crash, its parent goes on.

``python -m gcushare.cards.worker.main --parent PID --recorder FD --source JSON`` with a socket as standard input: it
opens the library, says so, then answers one request at a time until the socket's other end closes. One thread, no event
loop, few imports: it is small and starts fast.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence

import msgspec

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.libraries import LibrarySpec, create_library
from gcushare.cards.ports import CardLibrary
from gcushare.cards.worker.call_log import CallRecorder
from gcushare.cards.worker.frames import (
    HEADER,
    Described,
    Linked,
    Noticed,
    Opened,
    Operation,
    Request,
    decode_length,
    decode_request,
    encode_failure,
    encode_result,
)
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(argv: Sequence[str] | None = None) -> int:
    """Run the worker until its parent closes the socket; returns the exit code."""
    arguments = _parse_arguments(argv)
    if not _die_with_parent(arguments.parent):
        return 0
    # Ctrl-C in a terminal reaches us too; the parent decides when we end. libefml uses the two user signals.
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    os.dup2(2, 1)  # what a library prints belongs into the log, not into a protocol
    recorder = CallRecorder(arguments.recorder)
    os.close(arguments.recorder)
    spec = msgspec.json.decode(arguments.source, type=LibrarySpec)
    with socket.socket(fileno=os.dup(0)) as connection:
        serve(connection, create_library(spec, recorder.note))
    return 0


def serve(connection: socket.socket, library: CardLibrary) -> None:
    """Open the library, then answer requests until the peer closes."""
    try:
        opened = Opened(library=library.open(), driver=_driver_version(library))
    except DeviceError as error:
        connection.sendall(encode_failure(error))
        return
    connection.sendall(encode_result(opened))
    while (request := _receive(connection)) is not None:
        try:
            answer = encode_result(_perform(library, request))
        except DeviceError as error:
            answer = encode_failure(error)
        connection.sendall(answer)
    library.close()


def _perform(library: CardLibrary, request: Request) -> object:
    match request.operation:
        case Operation.COUNT:
            return library.card_count()
        case Operation.DESCRIBE:
            described = library.describe(request.slot)
            return Described(card=described) if isinstance(described, Card) else Described(left_out=described)
        case Operation.HEALTH:
            return library.health(request.slot)
        case Operation.USE:
            return library.use(request.slot)
        case Operation.EVENT:
            return Noticed(event=library.wait_event(request.timeout_s))
        case Operation.LINK:
            return Linked(level=library.link_level(request.slot, request.other_slot))


def _driver_version(library: CardLibrary) -> str:
    """The driver's version; "" where the library does not say, which is no reason to go without its cards."""
    try:
        return library.driver_version()
    except LibraryCallError:
        return ""


def _receive(connection: socket.socket) -> Request | None:
    header = _receive_exactly(connection, HEADER.size)
    return decode_request(_receive_exactly(connection, decode_length(header))) if header else None


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Read ``size`` bytes; b"" when the peer closed first."""
    received = b""
    while len(received) < size:
        try:
            part = connection.recv(size - len(received))
        except ConnectionResetError:
            return b""
        if not part:
            return b""
        received += part
    return received


def _die_with_parent(parent: int) -> bool:
    """Have the kernel kill us when the parent dies, even inside a hanging call; False when it is dead already.

    Source: prctl(2): the parent, there, is the thread that started us. Our parent starts us from its event loop's.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gcushare.cards.worker.main", description=__doc__)
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    parser.add_argument("--recorder", type=int, required=True, help="descriptor of the shared call recorder")
    parser.add_argument("--source", required=True, help="the library to open, a LibrarySpec as JSON")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
