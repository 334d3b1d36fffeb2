"""A worker process as its parent sees it: started, asked with a deadline, killed if it does not answer.

It is started by exec, not by fork: no thread, lock or gRPC state of the parent reaches the vendor's library. It is no
``multiprocessing`` process either: ``docs/adr/0039`` has the reasons.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from gcushare.cards.libraries import LibrarySpec
from gcushare.cards.worker.messages import (
    MAX_LINE_BYTES,
    CallRecorder,
    Opened,
    WorkerRequest,
    decode_answer,
    encode_line,
)
from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

T = TypeVar("T")

_END_TIMEOUT_S = 2.0
"""How long to wait for a process to end. One that is stuck in the driver cannot be killed until the call returns: it is
left behind, and ends then."""


class WorkerLostError(DeviceError):
    """A call cost the worker process: it did not return in time, or the process ended by itself.

    ``end`` says which; ``process`` is that process once it was asked to end.
    """

    def __init__(self, call: str, end: str) -> None:
        super().__init__(f"library call {call} {end}")
        self.call = call
        self.end = end
        self.process: WorkerProcess | None = None


class WorkerProcess:
    """A running worker. After any error but a ``LibraryCallError`` it is dead, and another must be started."""

    def __init__(self, spec: LibrarySpec) -> None:
        """Start the process; ``open`` must follow.

        Raises:
            DeviceError: the system starts no process.
        Effects: blocks for the milliseconds that exec takes.
        """
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as handed_over:
            try:
                self._socket, theirs = socket.socketpair()
                on_failure.callback(self._socket.close)
                handed_over.callback(theirs.close)
                descriptor = CallRecorder.create_file()
                handed_over.callback(os.close, descriptor)
                self._recorder = CallRecorder(descriptor)
                on_failure.callback(self._recorder.close)
                # -P: nothing is imported from the working directory.
                command = [sys.executable, "-P", "-m", "gcushare.cards.worker.main", "--parent", str(os.getpid())]
                command += ["--recorder", str(descriptor), "--source", msgspec.json.encode(spec).decode()]
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    command, stdin=theirs.fileno(), pass_fds=[descriptor]
                )
            except OSError as error:
                raise DeviceError(f"a process for the {spec.kind} library cannot be started: {error}") from error
            on_failure.pop_all()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists, which one that was killed does while it is stuck in the driver."""
        return self._process.poll() is None

    async def open(self, timeout_s: float) -> Opened:
        """Wait until the library is open.

        Raises:
            DeviceError: it cannot be opened, hangs or crashes; the process has been ended.
        """
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(sock=self._socket, limit=MAX_LINE_BYTES)
            with self._killed_on_error():
                return await self._answer(Opened, timeout_s)
        except BaseException:
            await self.close()
            raise

    async def call(self, request: WorkerRequest, result_type: type[T], timeout_s: float) -> T:
        """Ask and wait for the answer.

        Raises:
            WorkerLostError: no answer in time, and the process has been killed; or it ended instead of answering.
            DeviceError: the library's failure.
        """
        if self._writer is None:
            raise DeviceError(f"worker {self.pid} is not open")
        with self._killed_on_error():
            with contextlib.suppress(ConnectionError):  # it ended between two calls: reading reports how
                self._writer.write(encode_line(request))
                await self._writer.drain()
            return await self._answer(result_type, timeout_s)

    async def close(self) -> None:
        """End the process: close its socket, then kill it if it still runs. Repeatable.

        A process that is stuck in the driver still exists; ``is_running`` is True then.
        """
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()
        self._socket.close()
        if await self._returncode() is None:
            self._process.kill()
            if await self._returncode() is None:
                logger.warning("worker cannot be killed, its library is stuck in the driver %s", fields(pid=self.pid))
        self._recorder.close()

    async def _answer(self, result_type: type[T], timeout_s: float) -> T:
        assert self._reader is not None  # both callers have opened the connection
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._reader.readuntil(b"\n")
            return decode_answer(line, result_type)
        except TimeoutError as error:
            raise WorkerLostError(self._recorder.last_call(), f"did not return within {timeout_s:g}s") from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            code = await self._returncode()
            end = "a closed connection" if code is None else f"exit code {code}"
            if code is not None and code < 0:
                end = f"signal {-code}"
                with contextlib.suppress(ValueError):  # a signal without a name
                    end = signal.Signals(-code).name
            raise WorkerLostError(self._recorder.last_call(), f"ended its process with {end}") from error
        except (asyncio.LimitOverrunError, RemoteContractError) as error:
            end = f"ended its process with an unreadable answer: {error}"
            raise WorkerLostError(self._recorder.last_call(), end) from error

    @contextlib.contextmanager
    def _killed_on_error(self) -> Iterator[None]:
        """Kill the process on any error after which its next line would answer another request."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, WorkerLostError) or not isinstance(error, DeviceError):
                self._process.kill()
            raise

    async def _returncode(self) -> int | None:
        """Wait a bounded time for the end; None while the process runs."""
        code = self._process.poll()
        if code is not None:
            return code
        try:
            return await asyncio.to_thread(self._process.wait, _END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
