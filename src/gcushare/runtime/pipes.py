"""Output to a closed pipe (of head or less): it ends a command silently, with the exit code that shells expect."""

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
    """Whether an error is a write to a closed pipe, also as the only kind of error in an exception group."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_closed_pipe, error.exceptions))
    return isinstance(error, BrokenPipeError)


def leave_closed_pipes(*streams: TextIO) -> bool:
    """Redirect streams with a closed pipe to /dev/null; returns whether there was one.

    Effects: buffered output of these streams is lost. Otherwise the interpreter would report an error at exit.
    """
    has_left = False
    for stream in streams:  # every one: with `2>&1 | head`, both are closed
        descriptor = _pipe_of(stream)
        if descriptor is None:
            continue
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0)):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
            has_left = True
    return has_left


async def until_closed(stream: TextIO) -> None:
    """Wait until the reader of a pipe has closed it; forever if the stream is not a pipe.

    Use it for commands that follow changes: otherwise they would notice the closed pipe only at the next change.

    Raises:
        BrokenPipeError: the reader has closed the pipe.
    """
    import asyncio  # here, because every command imports this module and few wait

    gone = asyncio.Event()
    descriptor = _pipe_of(stream)
    if descriptor is None:
        await gone.wait()
        return
    loop = asyncio.get_running_loop()
    # The writing end of a pipe never has data to read. It becomes readable when the reading end is closed.
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
    raise BrokenPipeError(errno.EPIPE, "the reader has closed the pipe")


def _pipe_of(stream: TextIO) -> int | None:
    """The descriptor of a stream if it is a pipe, else None."""
    try:
        descriptor = stream.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):  # not a file of the system
        return None
