"""Child processes of the playground: starts them, reads their output, waits with deadlines, ends them by pid."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.core.errors import GcushareError

logger = logging.getLogger(__name__)

_TETHER = Path(__file__).with_name("tether.py")
_LISTENING = re.compile(r"\blistening\b.*\burl=(\S+)")
_TAIL_LINES = 40
_STREAM_LIMIT = 1 << 20
_LOG_LEVEL, _TOO_QUIET = "GCUSHARE_LOG_LEVEL", frozenset({"warning", "error"})
"""The one setting that children share with the person who plays; at these levels no program says that it is ready."""


class ProcessError(GcushareError):
    """A child did not start, did not get ready in time or ended early; the message ends with its last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A child to start: ``name`` is how messages and its log file call it."""

    name: str
    arguments: tuple[str, ...]
    log_dir: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """Added to ours."""
    ready: re.Pattern[str] = _LISTENING
    """The line that says it is ready; its first group is what ``start`` returns."""
    ready_lines: int = 1
    """How many of them it writes until it is ready."""


class Child:
    """One child process, in a session of its own so that a terminal's Ctrl-C reaches only us."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.log_file = command.log_dir / f"{command.name}.log"
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[str] | None = None
        self.addresses: list[str] = []
        """What its ready lines carried, since it was started."""

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def pid(self) -> int:
        """The process id.

        Raises:
            ProcessError: it was never started.
        """
        return self._started().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self, *, deadline_s: float = 60.0) -> str:
        """Start it and wait until it says that it is ready; returns what its ready line carries (its address).

        Raises:
            ProcessError: it ended, or said nothing of the kind by the deadline.
        """
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._ready = asyncio.get_running_loop().create_future()
        words = (sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *self.command.arguments)
        self._process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=_environ(self.command.environ),
            start_new_session=True,
            limit=_STREAM_LIMIT,
        )
        self._reader = asyncio.create_task(self._read(self._process, self._ready), name=f"output of {self.name}")
        try:
            async with asyncio.timeout(deadline_s):
                return await asyncio.shield(self._ready)
        except TimeoutError as error:
            raise ProcessError(f"{self.name} was not ready within {deadline_s:g}s\n{self.describe_tail()}") from error

    async def stop(self, *, grace_s: float = 10.0) -> int:
        """Ask it to end and return its exit code; one that does not end in time is killed. Repeatable."""
        process = self._started()
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                return await self.wait()
        except TimeoutError:
            logger.warning("child killed, it did not end in time name=%s grace_s=%g", self.name, grace_s)
            return await self.kill()

    async def kill(self) -> int:
        """End it at once (SIGKILL) and return its exit code."""
        process = self._started()
        if process.returncode is None:
            process.kill()
        return await self.wait()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._started().send_signal(number)

    async def wait(self) -> int:
        """Wait for its end and its last line; returns the exit code, negative for a signal."""
        code = await self._started().wait()
        if self._reader is not None:
            await self._reader
        return code

    def describe_tail(self) -> str:
        """Its last lines, for messages; ``log_file`` has them all."""
        lines = "\n".join(f"  {line}" for line in self._tail) or "  (nothing)"
        return f"last lines of {self.name}:\n{lines}"

    async def _read(self, process: asyncio.subprocess.Process, ready: asyncio.Future[str]) -> None:
        if process.stdout is None:
            raise ProcessError(f"{self.name} was started without a pipe")
        with self.log_file.open("a", encoding="utf-8") as log:
            while line := await _read_line(process.stdout):
                log.write(line)
                log.flush()
                self._tail.append(line.rstrip("\n"))
                found = self.command.ready.search(line)
                if found is not None:
                    self.addresses.append(found[1])
                    if len(self.addresses) == self.command.ready_lines:
                        ready.set_result(self.addresses[0])
        code = await process.wait()
        if not ready.done():
            ready.set_exception(
                ProcessError(f"{self.name} ended with code {code} before it was ready\n{self.describe_tail()}")
            )
            # ``start`` handles it, unless its deadline has passed.
            ready.exception()

    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise ProcessError(f"{self.name} was never started")
        return self._process


async def _read_line(stream: asyncio.StreamReader) -> str:
    try:
        line = await stream.readline()
    except ValueError:  # longer than the limit: what was read so far was dropped by the reader
        return "(a line too long to be shown)\n"
    return line.decode("utf-8", errors="replace")


def _environ(added: Mapping[str, str]) -> dict[str, str]:
    """Ours without the person's settings but the log level; output is UTF-8 in every locale, and seen at once."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GCUSHARE_") or (name == _LOG_LEVEL and value.lower() not in _TOO_QUIET)
    }
    return {**kept, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1", **added}


async def capture(
    *words: str, deadline_s: float = 60.0, environ: Mapping[str, str] | None = None, expected: int = 0
) -> str:
    """Run a command to its end and return what it printed; ``environ`` is added to ours.

    Raises:
        ProcessError: it took too long or its exit code is not the expected one.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=_environ(environ or {}),
    )
    try:
        async with asyncio.timeout(deadline_s):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise ProcessError(f"{words[0]} did not end within {deadline_s:g}s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != expected:
        raise ProcessError(f"{words[0]} ended with code {process.returncode}: {complaint.decode(errors='replace')}")
    return output.decode(errors="replace")


async def stop_all(children: Sequence[Child], *, grace_s: float = 10.0) -> None:
    """End children together; those that never started are passed over."""
    running = [child for child in children if child.is_running]
    await asyncio.gather(*(child.stop(grace_s=grace_s) for child in running))
