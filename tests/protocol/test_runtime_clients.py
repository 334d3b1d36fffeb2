"""The shared server and its clients: slow ones, many of them, and what they see when it stops."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest
import uvloop

from gcushare.runtime.http.answers import Cause
from gcushare.runtime.http.server import RunningServer
from tests.protocol.runtime_bench import (
    BOTH,
    DEADLINE_S,
    IMPATIENT,
    SETTINGS,
    Client,
    Serving,
    Work,
    connected,
    serving,
    serving_pages,
    until,
)

HOLD = "GET /hold HTTP/1.1\nHost: x\n\n"


@asynccontextmanager
async def holding(server: RunningServer, work: Work) -> AsyncIterator[Client]:
    """A client whose request is in work, until ``work.may_end``."""
    async with connected(server) as client:
        await client.ask("/hold")
        await work.started.wait()
        yield client


@pytest.mark.parametrize("beginning", ["G", "GET /hold HTTP/1.1\nHost: x\n"], ids=["first byte", "half a head"])
@BOTH
async def test_a_client_that_does_not_finish_its_head_is_cut_off(serving: Serving, beginning: str) -> None:
    async with serving(IMPATIENT) as server, connected(server) as client:
        await client.send(beginning)

        assert await client.wait_closed() == b""


@BOTH
async def test_a_slow_head_is_cut_off_on_a_used_connection_as_well(serving: Serving) -> None:
    async with serving(IMPATIENT) as server, connected(server) as client:
        assert (await client.get("/well"))[0] == 200
        await client.send("GET /")

        assert await client.wait_closed() == b""


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param("POST /echo HTTP/1.1\nHost: x\nContent-Length: 20\n\n{}", id="in the body"),
        pytest.param("POST /echo HTTP/1.1\nHost: x\nContent-Length: 20\n\n", id="before the body"),
        pytest.param(HOLD, id="before the answer"),
        pytest.param("GET /ho", id="in the head"),
    ],
)
async def test_a_client_that_closes_its_half_in_a_request_leaves_no_stack_in_the_log(
    request_: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as server, connected(server) as client:
        await client.send(request_)
        client.writer.write_eof()
        assert await client.wait_closed() == b""
        await until(lambda: len(server.connections) == 0)
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING] == []


@BOTH
async def test_a_client_that_does_not_read_its_answer_is_cut_off(serving: Serving) -> None:
    async with serving(IMPATIENT) as server:
        plain = socket.create_connection(("127.0.0.1", server.port))
        with plain:
            plain.sendall(b"GET /pour HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: len(server.connections) == 0)


@BOTH
async def test_a_slow_handler_is_not_a_slow_client(serving: Serving) -> None:
    async with serving(IMPATIENT, work := Work()) as server, holding(server, work) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), IMPATIENT.request_timeout * 2)
        work.may_end.set()

        assert await client.receive_response() == (200, {"held": True})


@BOTH
async def test_a_silent_connection_is_closed_after_the_idle_timeout(serving: Serving) -> None:
    async with serving(replace(IMPATIENT, idle_timeout=0.05)) as server, connected(server) as client:
        assert await client.wait_closed() == b""


async def test_at_the_limit_the_longest_idle_connection_makes_room() -> None:
    limited = replace(SETTINGS, max_connections=2)
    async with serving(limited) as server, connected(server) as first, connected(server) as second:
        for client in (second, first):
            await client.get("/well")
        async with connected(server) as third:
            assert (await third.get("/well"))[0] == 200
            assert await second.wait_closed() == b""
            assert (await first.get("/well"))[0] == 200
            assert server.rejected[Cause.CONNECTIONS] == 0


@pytest.mark.slow
async def test_of_many_connections_to_pages_the_oldest_make_room_whatever_they_do() -> None:
    async with serving_pages(replace(SETTINGS, max_connections=3)) as server, AsyncExitStack() as stack:
        clients = []
        for beginning in (HOLD, "", "GET /", "", "GET /"):
            clients.append(await stack.enter_async_context(connected(server)))
            await clients[-1].send(beginning)
        for cut in clients[:2]:
            assert await cut.wait_closed() == b""
        assert (await clients[3].get("/well"))[0] == 200
        assert len(server.connections) == 3


async def test_a_connection_whose_body_does_not_come_makes_room_as_well() -> None:
    async with serving(replace(SETTINGS, max_connections=2)) as server, AsyncExitStack() as stack:
        slow: list[Client] = []
        for count in (1, 2):
            slow.append(await stack.enter_async_context(connected(server)))
            await slow[-1].send("POST /echo HTTP/1.1\nHost: x\nContent-Length: 6\n\nhalf")
            await until(partial(lambda count: len(server.connections.busy) == count, count))
        quick = await stack.enter_async_context(connected(server))
        assert (await quick.get("/well"))[0] == 200
        assert b" 200 OK" not in await slow[0].wait_closed()
        await slow[1].send("..")
        assert (await slow[1].reader.readline()).startswith(b"HTTP/1.1 200")
        assert (server.rejected[Cause.MEMORY], server.rejected[Cause.CONNECTIONS]) == (1, 0)


async def test_with_every_connection_at_work_a_new_one_is_refused_and_those_at_work_finish() -> None:
    async with serving(replace(SETTINGS, max_connections=1), work := Work()) as server:
        async with holding(server, work) as busy:
            async with connected(server) as late:
                status, answer = await late.receive_response()
                assert (status, answer["error"]) == (503, "too many connections, try again later")
            work.may_end.set()
            assert await busy.receive_response() == (200, {"held": True})
        assert server.rejected[Cause.CONNECTIONS] == 1
        await until(lambda: len(server.connections) == 0)
        async with connected(server) as next_one:
            assert (await next_one.get("/hold"))[0] == 200


@BOTH
async def test_stopping_refuses_new_connections_and_finishes_requests_in_work(serving: Serving) -> None:
    async with serving(SETTINGS, work := Work()) as server, connected(server) as idle, holding(server, work) as busy:
        stopping = asyncio.create_task(server.stop(DEADLINE_S))
        assert await idle.wait_closed() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        work.may_end.set()

        assert await busy.receive_response() == (200, {"held": True})
        await stopping
        assert await busy.wait_closed() == b""
        assert len(server.connections) == 0


async def test_stopping_lets_a_body_that_is_on_its_way_arrive() -> None:
    async with serving() as server, connected(server) as busy, connected(server) as idle:
        await busy.send("POST /echo HTTP/1.1\nHost: x\nContent-Length: 4\n\n12")
        await until(lambda: len(server.connections.busy) == 1)

        stopping = asyncio.create_task(server.stop(DEADLINE_S))
        await idle.wait_closed()
        await busy.send("34")

        assert (await busy.receive_response())[0] == 200
        await stopping


@pytest.mark.slow
@BOTH
async def test_requests_that_outlast_the_drain_are_cancelled(serving: Serving) -> None:
    async with serving(SETTINGS, work := Work()) as server, holding(server, work) as busy:
        await server.stop(0.01)

        assert work.cancelled.is_set()
        assert await busy.wait_closed() == b""


@pytest.mark.parametrize(
    "scenario",
    [
        test_a_slow_head_is_cut_off_on_a_used_connection_as_well,
        test_a_client_that_does_not_read_its_answer_is_cut_off,
        test_stopping_refuses_new_connections_and_finishes_requests_in_work,
        test_requests_that_outlast_the_drain_are_cancelled,
    ],
    ids=lambda scenario: str(scenario.__name__),
)
@BOTH
def test_the_same_holds_on_the_event_loop_of_the_programs(
    serving: Serving, scenario: Callable[[Serving], Coroutine[None, None, None]]
) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario(serving))


@pytest.mark.parametrize(
    "scenario",
    [
        test_at_the_limit_the_longest_idle_connection_makes_room,
        test_of_many_connections_to_pages_the_oldest_make_room_whatever_they_do,
        test_with_every_connection_at_work_a_new_one_is_refused_and_those_at_work_finish,
    ],
    ids=lambda scenario: str(scenario.__name__),
)
def test_limits_hold_on_the_event_loop_of_the_programs(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
