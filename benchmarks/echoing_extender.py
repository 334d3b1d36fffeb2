"""The extender with two more endpoints: one echoes the names of a filter request, one says how memory is used.

What a filter costs beyond the echo is what the decision costs; both run in one server, in one process.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from dataclasses import replace

import msgspec

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.runtime.entry import run_program
from gcushare.runtime.http.scheduler_requests import Verb
from gcushare.runtime.shutdown import Shutdown
from gcushare.runtime.shutdown import run as run_until_shutdown
from gcushare.scheduler_extender.app import Extender, freeze_gc
from gcushare.scheduler_extender.extender_settings import NAME, PROGRAM, ExtenderSettings


class _Names(msgspec.Struct, rename="pascal"):
    node_names: list[str]


_decode = msgspec.json.Decoder(_Names).decode
_encode = msgspec.json.Encoder().encode


def echo(body: bytes) -> bytes:
    """Decode the names and send them back."""
    return _encode(_decode(body))


class Memory(msgspec.Struct, frozen=True):
    """How the process uses its memory. glibc returns a freed block to the system only from the end of a heap."""

    python_blocks: int
    """Objects that Python's allocator holds at this moment: what a leak of Python objects would raise."""

    c_used: int
    """Bytes that C code holds from glibc: large objects of Python, and all of the libraries."""

    c_free: int
    """Bytes that were freed, and that glibc keeps for the next call."""


class _MallocInfo(ctypes.Structure):
    """mallinfo2 of glibc 2.33 and newer: bytes, except those that count something."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def read_memory(body: bytes) -> bytes:
    """Answer with a `Memory`."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _MallocInfo
    info = libc.mallinfo2()
    return msgspec.json.encode(Memory(sys.getallocatedblocks(), info.uordblks + info.hblkhd, info.fordblks))


class EchoingExtender(Extender):
    """The program with both endpoints in addition to its own."""

    def make_verbs(self) -> list[Verb]:
        """Add the paths, answered as the scheduler's calls are."""
        return [*super().make_verbs(), Verb("/echo", echo), Verb("/memory", read_memory)]


async def _run(settings: ExtenderSettings, shutdown: Shutdown) -> int:
    async with KubeClient(find_api_server(settings.kube.kubeconfig, settings.kube.context), program=NAME) as client:
        # So long that renewals that are late on a busy machine end no leadership, and with it the measurement.
        election = replace(settings.election, lease_duration=600.0, lease_renew_deadline=540.0)
        extender = EchoingExtender(replace(settings, election=election), client, after_sync=freeze_gc)
        running = asyncio.create_task(extender.run(shutdown), name="extender")
        while extender.server is None and not running.done():  # noqa: ASYNC110 - it has no event for this
            await asyncio.sleep(0.01)
        if extender.server is not None:
            sys.stdout.write(f"{extender.server.port}\n")
            sys.stdout.flush()
        await running
    return 0


def _main(settings: ExtenderSettings) -> int:
    return run_until_shutdown(lambda shutdown: _run(settings, shutdown))


if __name__ == "__main__":
    sys.exit(run_program(PROGRAM, _main, log_settings=lambda settings: settings.log))
