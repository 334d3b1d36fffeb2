"""The scheduler's port over real sockets: what it takes, what is malformed, and requests in any pieces."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial

import pytest
from aiohttp import web

from gcushare.core.errors import Refused, RetryableError
from gcushare.runtime.http.answers import Cause
from gcushare.runtime.http.scheduler_requests import Call, GetPath, Verb
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.serving import ServeSettings
from tests.protocol import runtime_bench
from tests.protocol.runtime_bench import IMPATIENT, SETTINGS, Client, Work, connected, until


def refuse(body: bytes) -> bytes:
    raise Refused("no room")


async def postpone(body: bytes) -> bytes:
    raise RetryableError("try later", delay_s=2.5)


def break_down(body: bytes) -> bytes:
    raise ValueError("secret detail")


async def show(call: Call) -> web.Response:
    return web.json_response({"names": list(call.names), "query": dict(call.query)})


MORE = (
    *(Verb("/refuse", refuse), Verb("/postpone", postpone), Verb("/break", break_down)),
    *(GetPath("/show", show, (0, 2)), GetPath("", show)),
)


def serving(work: Work, settings: ServeSettings = SETTINGS) -> AbstractAsyncContextManager[RunningServer]:
    return runtime_bench.serving(settings, work, *MORE)


def post(path: str, body: str, *headers: str) -> str:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\n".join(lines) + "\n\n" + body


async def test_requests_of_one_connection_are_answered_one_after_the_other() -> None:
    async with serving(Work()) as server, connected(server) as client:
        for size in (0, 5, 60_000):
            answer = await client.exchange(post("/echo", "x" * size, "Authorization: any", "X-Odd: 1"))
            assert answer == (200, {"size": size, "start": "x" * min(size, 8)})
        assert len(server.connections.busy) == 0
        assert len(server.connections) == 1


async def test_a_request_may_come_in_pieces() -> None:
    async with serving(Work()) as server, connected(server) as client:
        for piece in post("/echo", "abcdefghij"):
            await client.send(piece)
            await asyncio.sleep(0)
        assert await client.receive_response() == (200, {"size": 10, "start": "abcdefgh"})


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/refuse", 422, "no room"), ("/postpone", 503, "try later"), ("/break", 500, "internal error; the server's log")],
)
async def test_errors_are_answered_in_json_and_the_connection_goes_on(
    path: str, status: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(Work()) as server, connected(server) as client:
        await client.send(post(path, "{}"))
        head = (await client.reader.readuntil(b"\r\n\r\n")).decode()
        body = json.loads(await client.reader.readexactly(int(head.partition("Content-Length: ")[2].split("\r")[0])))
        assert (int(head.split()[1]), body["status"]) == (status, status)
        assert body["error"].startswith(text)
        assert ("Retry-After: 3" in head) == (status == 503)
        assert (await client.exchange(post("/echo", "on")))[0] == 200
    assert ("secret detail" in caplog.text) == (status == 500)


MALFORMED = {
    "in chunks": "POST /echo HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
    "length and chunks": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 3\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
    "an identity encoding": post("/echo", "abc", "Transfer-Encoding: identity"),
    "two lengths": post("/echo", "abc", "Content-Length: 4"),
    "the length twice": post("/echo", "abc", "Content-Length: 3"),
    "a signed length": "POST /echo HTTP/1.1\nHost: x\nContent-Length: +3\n\nabc",
    "a length of other digits": "POST /echo HTTP/1.1\nHost: x\nContent-Length: \u0663\n\nabc",
    "no length": "POST /echo HTTP/1.1\nHost: x\n\n",
    "a length that is a list": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 3, 3\n\nabc",
    "a long length": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 00000000003\n\nabc",
    "a folded header": post("/echo", "abc", "Accept: a", " b"),
    "a space before the colon": post("/echo", "abc", "Accept : a"),
    "a header without a name": post("/echo", "abc", ": a"),
    "a control character": post("/echo", "abc", "User-Agent: a\x00b"),
    "a bare return": post("/echo", "abc", "User-Agent: a\rb"),
    "other letters": post("/echo", "abc", "User-Agent: \u00e9"),
    "two hosts": post("/echo", "abc", "Host: y"),
    "no host": "GET /show HTTP/1.1\n\n",
    "HTTP/1.0": post("/echo", "abc").replace("HTTP/1.1", "HTTP/1.0"),
    "HTTP/1.10": post("/echo", "abc").replace("HTTP/1.1", "HTTP/1.10"),
    "HTTP/2": "PRI * HTTP/2.0\n\nSM\n\n",
    "an absolute target": post("http://x/echo", "abc"),
    "a small method": post("/echo", "abc").replace("POST", "post"),
    "a length in hexadecimal": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 0x3\n\nabc",
    "a length with a space": "POST /echo HTTP/1.1\nHost: x\nContent-Length: 1 0\n\nabc",
    "an empty length": "POST /echo HTTP/1.1\nHost: x\nContent-Length:\n\nabc",
    "a target without a path": "OPTIONS * HTTP/1.1\nHost: x\n\n",
    "a fragment": post("/echo#a", "abc"),
    "two spaces": post(" /echo", "abc"),
    "a tab": "GET\t/show HTTP/1.1\nHost: x\n\n",
    "a line before it": "\nGET /show HTTP/1.1\nHost: x\n\n",
    "a body of another encoding": post("/echo", "abc", "Content-Encoding: gzip"),
    "a GET with a body": post("/show", "abc").replace("POST", "GET"),
    "a long head": "GET /show HTTP/1.1\nHost: x\nX: " + "y" * 9000 + "\n\n",
    "no HTTP": "nonsense\n\n",
}


@pytest.mark.parametrize("request_", [pytest.param(each, id=name) for name, each in MALFORMED.items()])
async def test_what_could_be_read_in_two_ways_is_malformed_and_ends_the_connection(request_: str) -> None:
    work = Work()
    async with serving(work) as server, connected(server) as client:
        status, answer = await client.exchange(request_ + post("/echo", "smuggled"))
        assert (status, answer["error"].startswith("malformed HTTP request: ")) == (400, True), answer
        assert await client.wait_closed() == b""
        assert server.rejected[Cause.MALFORMED] == 1
    assert work.taken == []


@pytest.mark.parametrize("raw", [b"POST /echo HTTP/1.1\nHost: x\nContent-Length: 0\n\n", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_bare_line_feed_or_tls_is_answered_at_once(raw: bytes) -> None:
    async with serving(Work()) as server, connected(server) as client:
        client.writer.write(raw)
        assert (await client.receive_response())[0] == 400


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ("GET /nowhere HTTP/1.1\nHost: x\n\n", 404, "no such path: '/nowhere'"),
        ("GET /show/one HTTP/1.1\nHost: x\n\n", 404, "no such path: '/show/one'"),
        ("GET /shown HTTP/1.1\nHost: x\n\n", 404, "no such path: '/shown'"),
        ("GET /echo HTTP/1.1\nHost: x\n\n", 405, "method not allowed; allowed: POST"),
        ("DELETE /show HTTP/1.1\nHost: x\n\n", 405, "method not allowed; allowed: GET"),
        ("HEAD /show HTTP/1.1\nHost: x\n\n", 405, "method not allowed; allowed: GET"),
        (post("/nowhere", "abc"), 404, "no such path: '/nowhere'"),
        (post("/show", "abc"), 405, "method not allowed; allowed: GET"),
        (post("/echo", "abc", "Expect: 100-continue"), 417, "header Expect; accepted: a request without it"),
    ],
)
async def test_wrong_paths_methods_and_sizes_have_a_status_of_their_own(request_: str, status: int, said: str) -> None:
    work = Work()
    async with serving(work) as server, connected(server) as client:
        found, answer = await client.exchange(request_)
        assert (found, answer["error"].partition(";")[0]) == (status, said.partition(";")[0])
        assert said in answer["error"]
    assert work.taken == []


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("/", {"names": [], "query": {}}),
        ("/show", {"names": [], "query": {}}),
        ("/show/?a=1&b", {"names": [], "query": {"a": "1", "b": ""}}),
        ("/show/a%2Fb/c+d", {"names": ["a/b", "c+d"], "query": {}}),
    ],
)
async def test_pages_are_found_by_their_parts(target: str, shown: object) -> None:
    async with serving(Work()) as server, connected(server) as client:
        for last in ("", "Connection: Close\n"):
            assert await client.exchange(f"GET {target} HTTP/1.1\nHost: x\n{last}\n") == (200, shown)
        assert await client.wait_closed() == b""


@pytest.mark.parametrize("first", [post("/hold", "first"), "GET /show HTTP/1.1\nHost: x\n\n", post("/echo", "first")])
@pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "while the first is answered"])
async def test_of_requests_sent_ahead_the_first_is_answered_and_the_connection_ends(first: str, *, apart: bool) -> None:
    work = Work()
    async with serving(work) as server, connected(server) as client, connected(server) as other:
        await client.send(first if apart else first + post("/echo", "second"))
        if apart and "/hold" in first:
            await work.started.wait()
        if apart:
            await client.send(post("/echo", "second"))
            await other.exchange(post("/echo", ""))
        work.may_end.set()
        assert (await client.receive_response())[0] == 200
        if not apart or "/hold" in first:
            assert await client.wait_closed() == b""
            assert b"second" not in work.taken


@pytest.mark.slow
async def test_a_slow_body_is_answered_408_and_its_memory_is_given_back() -> None:
    async with serving(Work(), IMPATIENT) as server:
        for _ in range(20):  # more than the bodies that may be in memory at once
            async with connected(server) as client:
                status, answer = await client.exchange(post("/echo", "x" * 60_000)[:-1])
                assert (status, answer["error"]) == (408, "the request's body did not arrive within 0.1s")
                assert await client.wait_closed() == b""
        async with connected(server) as client:
            assert (await client.exchange(post("/echo", "abc")))[0] == 200


async def test_a_client_that_leaves_in_the_middle_gives_its_memory_back() -> None:
    async with serving(Work()) as server:
        for _ in range(20):
            async with connected(server) as client:
                await client.send(post("/echo", "x" * 60_000)[:-1])
                await until(lambda: len(server.connections.busy) == 1)
            await until(lambda: len(server.connections) == 0)
        async with connected(server) as client:
            assert (await client.exchange(post("/echo", "x" * 60_000)))[0] == 200


async def test_half_requests_that_send_nothing_keep_no_one_out() -> None:
    whole = "x" * SETTINGS.max_request_size
    async with serving(Work()) as server, AsyncExitStack() as stack:
        for number in range(20):
            client = await stack.enter_async_context(connected(server))
            await client.send(post("/echo", whole)[: -len(whole)])
            await until(partial(lambda wanted: len(server.connections.busy) == wanted, number + 1))
        client = await stack.enter_async_context(connected(server))
        for body in ("abc", whole):
            assert (await client.exchange(post("/echo", body)))[0] == 200
        assert server.rejected[Cause.MEMORY] == 0


async def test_clients_that_never_finish_leave_a_connection_alone_that_is_idle_between_calls() -> None:
    async with serving(Work(), replace(SETTINGS, max_connections=8)) as server, AsyncExitStack() as stack:
        scheduler = await stack.enter_async_context(connected(server))
        for _ in range(5):
            for _ in range(12):
                reader, writer = await asyncio.open_connection(server.host, server.port, local_addr=("127.0.0.2", 0))
                stack.callback(writer.close)
                await Client(reader, writer).send(post("/echo", "xx")[:-1])
                await until(lambda: len(server.connections.busy) > 0)
            assert (await scheduler.exchange(post("/echo", "abc")))[0] == 200
        assert len(server.connections) == 8


async def test_bodies_that_stop_half_way_give_way_to_those_that_come() -> None:
    whole = "x" * SETTINGS.max_request_size
    async with serving(Work()) as server, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(connected(server)) for _ in range(9)]
        for number, client in enumerate(slow, start=1):
            await client.send(post("/echo", whole)[:-100])
            await until(partial(lambda wanted: len(server.connections.busy) == wanted, min(number, 8)))
        client = await stack.enter_async_context(connected(server))
        assert (await client.exchange(post("/echo", whole)))[0] == 200
        # The first made way for the ninth, the second for the whole one.
        for cut in slow[:2]:
            head = await cut.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1\r\n" in head
            length = int(re.search(rb"Content-Length: (\d+)", head)[1])  # type: ignore[index]  # or the test fails here
            assert b"came slower than others" in await cut.reader.readexactly(length)
            assert await cut.wait_closed() == b""
        assert server.rejected[Cause.MEMORY] == 2
        assert (await slow[2].exchange("x" * 100))[0] == 200


async def test_silence_ends_a_connection_but_requests_keep_it() -> None:
    async with serving(Work(), replace(SETTINGS, idle_timeout=0.3)) as server, connected(server) as client:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() < begun + 0.6:
            assert (await client.exchange(post("/echo", "abc")))[0] == 200
            await asyncio.sleep(0.05)  # a sixth of the idle timeout
        assert await client.wait_closed() == b""
