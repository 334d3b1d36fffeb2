"""Output whose reader (head, less) has left: it ends a command quietly, with the exit code that a shell knows."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
from typing import TextIO

from gcushare.runtime.exit_codes import SIGNALLED

CLOSED_PIPE = SIGNALLED + signal.SIGPIPE


def is_closed_pipe(error: BaseException) -> bool:
    """Tell whether an error is of writing to a pipe that no one reads, alone or from every task of a group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_closed_pipe, error.exceptions))
    return isinstance(error, BrokenPipeError)


def leave_closed_pipes(*streams: TextIO) -> bool:
    """Point the streams whose reader has left to nowhere, and tell whether there was one.

    Effects: what the streams still hold back is lost; otherwise the interpreter would complain about it at exit.
    """
    # Every stream is looked at: of `2>&1 | head` both have lost their reader.
    left = [_leave_closed_pipe(stream) for stream in streams]
    return any(left)


async def until_closed(stream: TextIO) -> None:
    """Wait until a pipe's reader has left; forever where the stream is no pipe.

    For what follows something: it writes at the next change, and that may be tomorrow.

    Raises:
        BrokenPipeError: the reader has left.
    """
    import asyncio  # here: every command imports this module, few wait

    gone = asyncio.Event()
    descriptor = _pipe_of(stream)
    if descriptor is None:
        await gone.wait()
        return
    loop = asyncio.get_running_loop()
    # The writing end of a pipe has nothing to read: it turns readable when its reader leaves.
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
    raise BrokenPipeError(errno.EPIPE, "no one reads the output any more")


def _pipe_of(stream: TextIO) -> int | None:
    """The descriptor of a stream that is a pipe."""
    try:
        descriptor = stream.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):  # not a file of the system
        return None


def _has_lost_its_reader(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))


def _leave_closed_pipe(stream: TextIO) -> bool:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # not a file of the system
        return False
    if not _has_lost_its_reader(descriptor):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return True
