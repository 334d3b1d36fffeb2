"""The shared servers over real sockets: errors, bodies, nonsense and addresses."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest
from aiohttp import ClientSession, web

from gcushare._version import __version__
from gcushare.core.errors import (
    ConfigError,
    ConflictError,
    DeviceError,
    ForbiddenError,
    NotFoundError,
    Refused,
    RemoteContractError,
    RetryableError,
)
from gcushare.runtime.health import HealthChecks
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.metrics import make_registry, metrics_route
from tests.protocol.commands import run_program
from tests.protocol.runtime_bench import BOTH, SETTINGS, Serving, Work, connected, serving, serving_pages, until


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RemoteContractError("bad body"), 400),
        (ForbiddenError("no right"), 403),
        (NotFoundError("no node 'x'"), 404),
        (ConflictError("changed"), 409),
        (Refused("no room"), 422),
        (RetryableError("try later", delay_s=2.5), 503),
    ],
)
async def test_our_errors_become_json_with_their_status(error: Exception, status: int) -> None:
    async def fail(_request: web.Request) -> web.Response:
        raise error

    async with serving_pages(SETTINGS, None, web.get("/fail", fail)) as server, ClientSession() as session:
        got = await session.get(f"{server.url}/fail")
        assert got.status == status
        assert await got.json() == {"error": str(error), "status": status}
        assert got.headers.get("Retry-After") == ("3" if status == 503 else None)


@pytest.mark.parametrize("error", [ValueError("secret detail"), DeviceError("secret detail")])
async def test_a_defect_is_a_500_that_tells_nothing_and_a_log_line_that_tells_all(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_request: web.Request) -> web.Response:
        raise error

    async with serving_pages(SETTINGS, None, web.get("/fail", fail)) as server, ClientSession() as session:
        async with session.get(f"{server.url}/fail") as got:
            assert (got.status, "secret detail" in await got.text()) == (500, False)
        async with session.get(f"{server.url}/well") as got:
            assert got.status == 200

    assert "secret detail" in caplog.text
    assert "Traceback" in caplog.text


@BOTH
async def test_a_stream_that_fails_is_cut_instead_of_continued_with_an_error(serving: Serving) -> None:
    async with serving() as server, connected(server) as client:
        await client.ask("/stream")
        received = await client.wait_closed()

    assert received.count(b"HTTP/1.1") == 1
    assert b"begun" in received
    assert not received.endswith(b"0\r\n\r\n")


async def test_a_body_above_the_limit_is_refused_before_it_is_read() -> None:
    async with serving() as server, connected(server) as client:
        await client.send("POST /echo HTTP/1.1\nHost: x\nContent-Length: 100000000\n\n")

        status, body = await client.receive_response()

    assert status == 413
    assert body["error"] == "the request's body has 100000000 bytes; accepted: at most 65536 bytes"


@pytest.mark.parametrize("rest", ["Content-Length: 3\n\nabc", "Transfer-Encoding: chunked\n\n3\nabc\n0\n\n"])
async def test_a_page_takes_no_body(rest: str) -> None:
    async with serving_pages() as server, connected(server) as client:
        status, body = await client.exchange(f"GET /hold HTTP/1.1\nHost: x\n{rest}")
        assert (status, body["error"]) == (413, "the request has a body; accepted on this port: none")
        await client.wait_closed()


async def test_bodies_in_memory_are_bounded_over_all_clients() -> None:
    work = Work()
    async with serving(SETTINGS, work) as server, ClientSession() as session:

        async def post_large() -> int:
            async with session.post(f"{server.url}/hold", data=b"x" * 65536) as got:
                return got.status

        async with asyncio.TaskGroup() as group:
            held = [group.create_task(post_large()) for _ in range(10)]
            early = await first_done(held, 2)
            work.may_end.set()

    assert early == [503, 503]
    assert sorted(task.result() for task in held) == [200] * 8 + [503] * 2


async def first_done(tasks: list[asyncio.Task[int]], count: int) -> list[int]:
    """Wait until ``count`` of the tasks are done and return their results."""
    await until(lambda: sum(task.done() for task in tasks) >= count)
    return [task.result() for task in tasks if task.done()]


@pytest.mark.parametrize(
    "nonsense",
    [
        "nonsense\n\n",
        "GET / HTTP/9.9\n\n",
        "GET / HTTP/1.1\nbad header\n\n",
        "GET / HTTP/1.1\nHost: x\nX: " + "y" * 20_000 + "\n\n",
        "\x16\x03\x01\x02\n\n",
    ],
    ids=["no HTTP", "no such version", "bad header", "huge header", "TLS on a plain port"],
)
@BOTH
async def test_what_is_no_http_is_answered_and_the_server_goes_on(
    serving: Serving, nonsense: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as server, ClientSession() as session:
        async with connected(server) as client:
            status, body = await client.exchange(nonsense)
            await client.wait_closed()
        assert (status, body["status"]) == (400, 400)
        assert "Traceback" not in caplog.text
        async with session.get(f"{server.url}/well") as got:
            assert got.status == 200


async def test_an_address_that_is_taken_is_a_settings_problem() -> None:
    async with serving() as server:
        taken = replace(SETTINGS, listen_port=server.port)
        with pytest.raises(ConfigError, match=f"listen-port {server.port}: cannot listen: Address already in use"):
            await start_server(web.Application(), taken)


async def test_health_metrics_work_over_the_port() -> None:
    health = HealthChecks()
    well = [True]

    async def check() -> str | None:
        return None if well[0] else "stuck"

    health.add_live("loop", check)
    routes = [*health.routes(), metrics_route(make_registry("gcushare-example"))]
    async with serving_pages(SETTINGS, None, *routes) as server, ClientSession() as session:
        async with session.get(f"{server.url}/healthz") as got:
            assert got.status == 200
        well[0] = False
        async with session.get(f"{server.url}/readyz") as got:
            assert got.status == 503
            assert (await got.json())["checks"] == {"loop": {"ok": False, "reason": "stuck"}}
        async with session.get(f"{server.url}/metrics") as got:
            build = f'gcushare_build_info{{program="gcushare-example",version="{__version__}"}} 1.0'
            assert build in await got.text()


WITHOUT_IPV6 = """
import ctypes, platform, struct
# seccomp: socket(AF_INET6, ...) ends with EAFNOSUPPORT, as on a kernel that was started with ipv6.disable=1.
number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
steps = ((0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, 10))
steps += ((0x6, 0, 0, 0x50061), (0x6, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)), 0, 0) == 0
"""
ANSWER_ALL = """
import asyncio, sys
from aiohttp import ClientSession, web
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.settings.serving import ServeSettings

async def answer(_):
    return web.Response(text="here")

async def main():
    app = web.Application()
    app.add_routes([web.get("/", answer)])
    server = await start_server(app, ServeSettings())
    for host in sys.argv[1:]:
        async with ClientSession() as session, session.get(f"http://{host}:{server.port}/") as got:
            print(host, await got.text())
    await server.stop(0)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("before", "hosts"),
    [
        pytest.param("", ("127.0.0.1", "[::1]"), id="both"),
        pytest.param(WITHOUT_IPV6, ("127.0.0.1",), id="a kernel without IPv6", marks=pytest.mark.slow),
    ],
)
async def test_both_families_are_answered_by_default(before: str, hosts: tuple[str, ...]) -> None:
    ran = await run_program(sys.executable, "-c", before + ANSWER_ALL, *hosts)
    assert (ran.code, ran.lines) == (0, [f"{host} here" for host in hosts]), ran.err
