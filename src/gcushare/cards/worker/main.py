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
from gcushare.cards.ports import CardLibrary, LimitingLibrary
from gcushare.cards.worker import messages
from gcushare.cards.worker.messages import Described, Operation, WorkerRequest
from gcushare.core.cards import Card
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
    with contextlib.suppress(ConnectionResetError):  # the parent closed it with an answer unread
        while line := requests.readline():
            try:
                answer = messages.encode_result(_perform(library, messages.REQUEST.read(line)))
            except DeviceError as error:
                answer = messages.encode_failure(error)
            connection.sendall(answer)
    library.close()


def _perform(library: CardLibrary, request: WorkerRequest) -> object:
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
            return messages.EventAnswer(event=library.wait_event(request.timeout_s))
        case Operation.LINK:
            return messages.LinkAnswer(level=library.link_level(request.slot, request.other_slot))
    if not isinstance(library, LimitingLibrary):
        raise DeviceError("this vendor's library keeps no memory limits")
    if request.operation is Operation.LIMIT_GROUP:
        library.limit_group(request.slot, request.group, request.hard_bytes)
    return messages.GroupAnswer(memory=library.group_memory(request.slot, request.group))


if __name__ == "__main__":
    sys.exit(main())
