"""The scheduler's port and random bytes: answered alike wherever they are cut, taken as another server takes them."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from gcushare.runtime.http.server import RunningServer
from tests.protocol.kube_server import serving as other_server
from tests.protocol.runtime_bench import IMPATIENT, SETTINGS, Work, connected
from tests.protocol.test_scheduler_server import MALFORMED, post, serving

WELL_FORMED = (
    post("/echo", "abc"),
    post("/echo", "x" * 300, "X-Odd: 1"),
    post("/hold", ""),
    post("/refuse", "{}"),
    "GET /show HTTP/1.1\nHost: x\n\n",
    "GET /nowhere HTTP/1.1\nHost: x\n\n",
)


DAMAGE = (b"\n", b"\r", b" ", b":", b"\x00", b"0", b"\xff", b"")


def streams(count: int) -> list[bytes]:
    """Random streams of requests, a third of them with damaged bytes."""
    rng, kinds = random.Random(5), (WELL_FORMED, WELL_FORMED, tuple(MALFORMED.values()))
    made = []
    for number in range(count):
        text = "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(1, 4)))
        data = bytearray(text.replace("\n", "\r\n").encode("utf-8"))
        for _ in range(rng.randint(1, 3) if number % 3 == 0 else 0):
            place = rng.randrange(len(data))
            data[place : place + rng.randint(0, 2)] = rng.choice(DAMAGE)
        made.append(bytes(data))
    return made


LAST = b"GET /show HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def send_all(server: RunningServer, data: bytes, cuts: list[int]) -> list[bytes]:
    """Send the bytes cut at some places; returns the statuses of the answers."""
    data += LAST
    async with connected(server) as client:
        for begin, end in pairwise([0, *cuts, len(data)]):
            client.writer.write(data[begin:end])
            await asyncio.sleep(0.001 if cuts else 0)
        received = await client.wait_closed()
    return re.findall(rb"HTTP/1.1 (\d+)", received)


@pytest.mark.slow
async def test_random_streams_are_answered_alike_wherever_they_are_cut() -> None:
    """Of what comes after the first request, more or less is dropped."""
    rng, patient = random.Random(7), replace(SETTINGS, request_timeout=1.0)
    for data in streams(75):
        seen = []
        for cuts in ([], sorted(rng.sample(range(1, len(data)), min(5, len(data) - 1)))):
            work = Work()
            work.may_end.set()
            async with serving(work, patient) as server:
                seen.append(((await send_all(server, data, cuts))[:1], work.taken[:1]))
        assert seen[0] == seen[1] or not all(statuses for statuses, _ in seen), data


@pytest.mark.slow
async def test_what_is_taken_from_a_random_stream_is_what_another_server_takes_from_it() -> None:
    """Either may take less: aiohttp drops what came in one piece with something malformed."""
    read: list[bytes] = []

    async def take(request: web.Request) -> web.StreamResponse:
        if request.method == "POST" and request.path in ("/echo", "/hold"):
            read.append(await request.read())
        return web.Response()

    agreed = 0
    async with other_server(take) as address:
        for data in streams(150):
            work = Work()
            work.may_end.set()
            read.clear()
            async with serving(work, IMPATIENT) as server:
                await send_all(server, data, [])
            reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(address).port)
            writer.write(data + LAST)
            with suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(0.2):
                    await reader.read(1 << 20) and await reader.read()
            writer.transport.abort()
            both = min(len(read), len(work.taken))
            assert read[:both] == work.taken[:both], data
            agreed += both
    assert agreed > 20
