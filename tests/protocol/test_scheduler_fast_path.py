"""The fast path over real sockets: what it takes, what it leaves to aiohttp, and that no one can tell which."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVarTuple, Unpack

import pytest
from aiohttp import web

from gcushare.core.errors import Refused, RetryableError
from gcushare.runtime.http.answers import Cause
from gcushare.runtime.http.scheduler_fast_path import VERBS, FastPathHandler, Verb, read_head
from gcushare.runtime.http.server import RunningServer, add_verbs, start_server
from gcushare.runtime.settings.serving import ServeSettings
from tests.protocol.runtime_bench import DEADLINE_S, IMPATIENT, SETTINGS, Client, connected, until

_Given = TypeVarTuple("_Given")


@dataclass
class Desk:
    """Handlers that count their calls; ``hold`` answers when a test says so."""

    taken: list[bytes] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def echo(self, body: bytes) -> bytes:
        self.taken.append(body)
        return json.dumps({"size": len(body), "start": body[:8].decode()}).encode()

    async def hold(self, body: bytes) -> bytes:
        self.taken.append(body)
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return b'{"held": true}'

    def tell_at_length(self, body: bytes) -> bytes:
        return json.dumps({"words": "x" * 200_000}).encode()

    def refuse(self, body: bytes) -> bytes:
        raise Refused("no room")

    async def postpone(self, body: bytes) -> bytes:
        raise RetryableError("try later", delay_s=2.5)

    def break_down(self, body: bytes) -> bytes:
        raise ValueError("secret detail")


@asynccontextmanager
async def serving(
    desk: Desk, settings: ServeSettings = SETTINGS, *, is_fast: bool = True
) -> AsyncIterator[RunningServer]:
    app = web.Application()
    handlers: dict[str, FastPathHandler] = {
        "/echo": desk.echo,
        "/hold": desk.hold,
        "/long": desk.tell_at_length,
        "/refuse": desk.refuse,
        "/postpone": desk.postpone,
        "/break": desk.break_down,
    }
    add_verbs(app, [Verb(path, handler) for path, handler in handlers.items()])
    if not is_fast:
        app[VERBS] = ()
    server = await start_server(app, settings)
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield server
    finally:
        await server.stop(0)


def post(path: str, body: str, *headers: str) -> str:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\n".join(lines) + "\n\n" + body


async def test_requests_of_one_connection_are_answered_one_after_the_other() -> None:
    async with serving(Desk()) as server, connected(server) as client:
        for size in (0, 5, 60_000):
            await client.send(post("/echo", "x" * size))
            assert await client.receive_response() == (200, {"size": size, "start": "x" * min(size, 8)})
        assert len(server.connections.busy) == 0
        assert len(server.connections) == 1


async def test_a_body_may_come_in_pieces() -> None:
    async with serving(Desk()) as server, connected(server) as client:
        request = post("/echo", "abcdefghij")
        await client.send(request[:-10])
        await until(lambda: len(server.connections.busy) == 1)
        for piece in ("abc", "defg", "hij"):
            await client.send(piece)
        assert await client.receive_response() == (200, {"size": 10, "start": "abcdefgh"})


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/refuse", 422, "no room"), ("/postpone", 503, "try later"), ("/break", 500, "internal error; the server's log")],
)
async def test_errors_are_answered_as_on_any_other_path(
    path: str, status: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Desk()) as server, connected(server) as client:
        await client.send(post(path, "{}"))
        head = (await client.reader.readuntil(b"\r\n\r\n")).decode()
        body = json.loads(await client.reader.readexactly(int(head.partition("Content-Length: ")[2].split("\r")[0])))
        assert (int(head.split()[1]), body["status"]) == (status, status)
        assert body["error"].startswith(text)
        assert ("Retry-After: 3" in head) == (status == 503)
        await client.send(post("/echo", "on"))
        assert (await client.receive_response())[0] == 200
    assert ("secret detail" in caplog.text) == (status == 500)


ODD = {
    "in chunks": "POST /echo HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
    "length and chunks": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 3\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
    "two lengths": post("/echo", "abc", "Content-Length: 4"),
    "the length twice": post("/echo", "abc", "Content-Length: 3"),
    "a signed length": "POST /echo HTTP/1.1\nHost: x\nContent-Length: +3\n\nabc",
    "no length": "POST /echo HTTP/1.1\nHost: x\n\n",
    "a length that is a list": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 3, 3\n\nabc",
    "a folded header": post("/echo", "abc", "Accept: a", " b"),
    "a space before the colon": post("/echo", "abc", "Accept : a"),
    "a control character": post("/echo", "abc", "User-Agent: a\x00b"),
    "a bare return": post("/echo", "abc", "User-Agent: a\rb"),
    "the end of the connection": post("/echo", "abc", "Connection: close"),
    "HTTP/1.0": post("/echo", "abc").replace("HTTP/1.1", "HTTP/1.0"),
    "another method": post("/echo", "abc").replace("POST", "PUT"),
    "a small method": post("/echo", "abc").replace("POST", "post"),
    "a query": post("/echo?x=1", "abc"),
    "an unknown path": post("/nowhere", "abc"),
    "a body of another encoding": post("/echo", "abc", "Content-Encoding: gzip"),
    "a body too large": post("/echo", "x" * (SETTINGS.max_request_size + 1)),
    "no HTTP": "nonsense\n\n",
}


async def say_and_hear(desk: Desk, request: str, *, is_fast: bool) -> tuple[int, object]:
    async with serving(desk, is_fast=is_fast) as server, connected(server) as client:
        await client.send(request)
        return await client.receive_response()


@pytest.mark.parametrize("request_", [pytest.param(each, id=name) for name, each in ODD.items()])
async def test_what_is_not_plain_is_answered_as_if_there_were_no_fast_path(request_: str) -> None:
    fast, ordinary = Desk(), Desk()
    assert await say_and_hear(fast, request_, is_fast=True) == await say_and_hear(ordinary, request_, is_fast=False)
    assert fast.taken == ordinary.taken
    assert (
        read_head(request_.replace("\n", "\r\n").encode()) is None
        or "/echo HTTP" not in request_
        or len(request_) > SETTINGS.max_request_size
    )


async def test_a_head_in_pieces_is_answered_as_well() -> None:
    async with serving(Desk()) as server, connected(server) as client:
        request = post("/echo", "abc")
        await client.send(request[:20])
        await client.send(request[20:])
        assert await client.receive_response() == (200, {"size": 3, "start": "abc"})


@pytest.mark.parametrize("first", ["/hold", "/echo"])
async def test_requests_sent_ahead_are_answered_in_their_order(first: str) -> None:
    desk = Desk()
    async with serving(desk) as server, connected(server) as client:
        await client.send(post(first, "first") + post("/echo", "second") + post("/echo", "third")[:-2])
        if first == "/hold":
            await desk.started.wait()
            desk.may_end.set()
        answers = [await client.receive_response() for _ in range(2)]
        await client.send("rd")
        answers.append(await client.receive_response())
        assert [status for status, _ in answers] == [200] * 3
        assert desk.taken == [b"first", b"second", b"third"]


async def test_a_slow_body_is_answered_408_and_its_memory_is_given_back() -> None:
    async with serving(Desk(), IMPATIENT) as server:
        for _ in range(20):  # more than the bodies that may be in memory at once
            async with connected(server) as client:
                await client.send(post("/echo", "x" * 60_000)[:-1])
                status, answer = await client.receive_response()
                assert (status, answer["error"]) == (408, "the request's body did not arrive within 0.1s")
                assert await client.wait_closed() == b""
        async with connected(server) as client:
            await client.send(post("/echo", "abc"))
            assert (await client.receive_response())[0] == 200


async def test_a_client_that_leaves_in_the_middle_gives_its_memory_back() -> None:
    async with serving(Desk()) as server:
        for _ in range(20):
            async with connected(server) as client:
                await client.send(post("/echo", "x" * 60_000)[:-1])
                await until(lambda: len(server.connections.busy) == 1)
            await until(lambda: len(server.connections) == 0)
        async with connected(server) as client:
            await client.send(post("/echo", "x" * 60_000))
            assert (await client.receive_response())[0] == 200


@pytest.mark.parametrize("header", [(), ("X-Odd: 1",)], ids=["fast path", "ordinary route"])
async def test_half_requests_that_send_nothing_keep_no_one_out(header: tuple[str, ...]) -> None:
    whole = "x" * SETTINGS.max_request_size
    async with serving(Desk()) as server, AsyncExitStack() as stack:
        for number in range(20):
            client = await stack.enter_async_context(connected(server))
            await client.send(post("/echo", whole, *header)[: -len(whole)])
            await until(partial(lambda wanted: len(server.connections.busy) == wanted, number + 1))
        client = await stack.enter_async_context(connected(server))
        for body in ("abc", whole):
            await client.send(post("/echo", body))
            assert (await client.receive_response())[0] == 200
        assert server.rejected[Cause.MEMORY] == 0


@pytest.mark.parametrize("header", [(), ("X-Odd: 1",)], ids=["fast path", "ordinary route"])
async def test_bodies_that_stop_half_way_give_way_to_those_that_come(header: tuple[str, ...]) -> None:
    whole = "x" * SETTINGS.max_request_size
    async with serving(Desk()) as server, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(connected(server)) for _ in range(9)]
        for number, client in enumerate(slow, start=1):
            await client.send(post("/echo", whole, *header)[:-100])
            await until(partial(lambda wanted: len(server.connections.busy) == wanted, min(number, 8)))
        client = await stack.enter_async_context(connected(server))
        await client.send(post("/echo", whole))
        assert (await client.receive_response())[0] == 200
        # The first made way for the ninth, the second for the whole one.
        for cut in slow[:2]:
            head = await cut.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1\r\n" in head
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])  # type: ignore[index]  # or the test fails here
            assert b"came slower than others" in await cut.reader.readexactly(length)
            assert await cut.wait_closed() == b""
        assert server.rejected[Cause.MEMORY] == 2
        await slow[2].send("x" * 100)
        assert (await slow[2].receive_response())[0] == 200


def written_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log lines of requests, without what differs from one request to the next: the port and the time."""
    lines = [record.getMessage() for record in caplog.records if "path=/echo" in record.getMessage()]
    return [re.sub(r", \d+\)|ms=[\d.]+", "", line) for line in lines]


async def test_both_ways_write_the_same_lines_and_the_same_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen = []
    for header in ((), ("X-Odd: 1",)):
        caplog.clear()
        heads = []
        async with serving(Desk(), IMPATIENT) as server:
            for request in (post("/echo", "abc", *header), post("/echo", "abc", *header)[:-1]):
                async with connected(server) as client:
                    await client.send(request)
                    heads.append((await client.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
            await until(lambda: len(server.connections.busy) == 0)
        seen.append((heads, written_lines(caplog)))
    fast, ordinary = seen

    assert fast == ordinary
    assert fast[0] == [b"HTTP/1.1 200 OK", b"HTTP/1.1 408 Request Timeout"]
    assert [line.split(" peer=")[0] for line in fast[1]] == ["answered", "request turned away", "answered"]


async def test_silence_ends_a_connection_but_requests_keep_it() -> None:
    async with serving(Desk(), replace(SETTINGS, idle_timeout=0.3)) as server, connected(server) as client:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() < begun + 0.6:
            await client.send(post("/echo", "abc"))
            assert (await client.receive_response())[0] == 200
        assert await client.wait_closed() == b""


class TimersCounted(asyncio.SelectorEventLoop):
    """Counts the timers that are set."""

    timers = 0

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[_Given]], object],
        *args: *_Given,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(when, callback, *args, context=context)


def test_a_request_that_outlasts_the_idle_timeout_rings_no_timer_until_it_ends() -> None:
    async def ask() -> int:
        desk, loop = Desk(), asyncio.get_running_loop()
        assert isinstance(loop, TimersCounted)
        async with serving(desk, replace(SETTINGS, idle_timeout=0.05)) as server, connected(server) as client:
            await client.send(post("/echo", "abc"))
            await client.receive_response()
            await client.send(post("/hold", ""))
            await desk.started.wait()
            before = loop.timers
            await asyncio.sleep(0.3)  # Six times the idle timeout: what may ring in it is what is counted.
            rung = loop.timers - before
            desk.may_end.set()
            assert (await client.receive_response())[0] == 200
            assert await client.wait_closed() == b"", "the silence after it ends the connection"
        return rung

    with asyncio.Runner(loop_factory=TimersCounted) as runner:
        assert runner.run(ask()) <= 3


async def test_the_drain_waits_for_answers_under_way() -> None:
    desk = Desk()
    async with serving(desk) as server, connected(server) as client:
        await client.send(post("/hold", ""))
        await desk.started.wait()
        stopping = asyncio.create_task(server.stop(10), name="stop the server")
        await asyncio.sleep(0)
        desk.may_end.set()
        status, _ = await client.receive_response()
        assert status == 200
        assert await client.wait_closed() == b""
        await stopping


async def test_after_the_drain_answers_under_way_are_cancelled() -> None:
    desk = Desk()
    async with serving(desk) as server, connected(server) as client:
        await client.send(post("/hold", ""))
        await desk.started.wait()
        await server.stop(0)
        assert desk.cancelled.is_set()
        assert await client.wait_closed() == b""


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with serving(Desk(), IMPATIENT) as server, connected(server) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
        with pytest.raises(ConnectionError):
            await ask_without_end(client)
        await until(lambda: len(server.connections) == 0)


async def ask_without_end(client: Client) -> None:
    """Ask without reading answers."""
    request = post("/long", "{}").replace("\n", "\r\n").encode() * 200
    while True:
        client.writer.write(request)
        await client.writer.drain()
