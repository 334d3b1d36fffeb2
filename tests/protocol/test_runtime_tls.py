"""TLS of the shared server: who may call, and files that are renewed while connections are open."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop
from aiohttp import ClientConnectionError, ClientConnectorError, ClientSession, TCPConnector
from cryptography import x509

from gcushare.core.errors import ConfigError
from gcushare.runtime.health import HealthChecks
from gcushare.runtime.http.answers import Cause
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.http.tls import FollowedTls
from tests.protocol.runtime_bench import IMPATIENT, connected, serving, serving_pages
from tests.protocol.runtime_certificates import Authority, trusting
from tests.protocol.tls_secret import Secret


@pytest.fixture
def secret(tmp_path: Path) -> Secret:
    return Secret.begin(tmp_path / "secret")


async def fetch_serial(server: RunningServer, authority: Authority) -> int:
    """Open a new connection and return the serial number of the certificate that it was shown."""
    async with connected(server, trusting(authority)) as client:
        shown = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(shown).serial_number


async def wait_for_serial(server: RunningServer, authority: Authority, serial: int) -> None:
    while await fetch_serial(server, authority) != serial:  # noqa: ASYNC110 - what it waits for is seen from outside only
        await asyncio.sleep(0.05)


@asynccontextmanager
async def calling(context: ssl.SSLContext) -> AsyncIterator[ClientSession]:
    async with ClientSession(connector=TCPConnector(ssl=context)) as session:
        yield session


async def echo(server: RunningServer, context: ssl.SSLContext) -> str:
    """What a client gets back over a connection of its own."""
    async with calling(context) as session, session.post(f"{server.url}/echo", data=b"x") as got:
        assert got.status == 200
        return str((await got.json())["start"])


async def test_it_answers_over_tls_to_clients_that_trust_its_authority(secret: Secret) -> None:
    async with serving(secret.settings()) as server:
        assert server.url.startswith("https://")
        assert await echo(server, trusting(secret.authority)) == "x"
        with pytest.raises(ClientConnectorError):
            await echo(server, trusting(Authority("another")))


@pytest.mark.slow
async def test_a_renewed_certificate_holds_for_new_connections_and_open_ones_go_on(secret: Secret) -> None:
    first, second = secret.authority.issue("first"), secret.authority.issue("second", lasts=timedelta(days=90))
    secret.publish(first)
    async with serving(secret.settings()) as server, connected(server, trusting(secret.authority)) as open_before:
        assert await fetch_serial(server, secret.authority) == first.serial

        secret.publish(second)
        await wait_for_serial(server, secret.authority, second.serial)
        assert [each.not_after.timestamp() for each in server.certificate_ends] == [second.end_s]

        assert (await open_before.get("/well"))[0] == 200


async def test_files_that_cannot_be_used_are_reported_once_and_the_old_ones_stay(
    secret: Secret, caplog: pytest.LogCaptureFixture
) -> None:
    good = secret.authority.issue("good")
    secret.publish(good)
    tls = FollowedTls(secret.files)
    assert not tls.reload()

    (secret.folder / "tls.key").write_bytes(secret.authority.issue("another").key_pem)
    assert not tls.reload()
    assert not tls.reload()
    assert caplog.text.count("TLS files not reloaded") == 1

    (secret.folder / "tls.crt").unlink()
    assert not tls.reload()
    assert caplog.text.count("TLS files not reloaded") == 2

    (secret.folder / "tls.crt").write_bytes(good.cert_pem)
    (secret.folder / "tls.key").write_bytes(good.key_pem)
    assert not tls.reload(), "the contents are those that are in use"
    (secret.folder / "tls.crt").unlink()
    (secret.folder / "tls.key").unlink()
    secret.authority.issue("renewed").write(secret.folder)
    assert tls.reload()


@pytest.mark.parametrize("break_files", ["missing", "no PEM", "key of another"])
async def test_files_that_cannot_be_used_at_the_start_are_a_settings_problem(secret: Secret, break_files: str) -> None:
    key = secret.folder / "tls.key"
    key.unlink()
    if break_files == "no PEM":
        key.write_text("nonsense")
    elif break_files == "key of another":
        key.write_bytes(secret.authority.issue("another").key_pem)

    with pytest.raises(ConfigError, match=r"tls\.key"):
        async with serving(secret.settings()):
            pass


async def test_pages_are_for_clients_of_the_authority_and_probes_need_none(secret: Secret, tmp_path: Path) -> None:
    clients, strangers = Authority("clients"), Authority("strangers")
    secret.publish(secret.authority.issue("server"), clients)
    async with serving_pages(secret.settings(), None, *HealthChecks().routes()) as server:
        async with calling(trusting(secret.authority)) as session:
            async with session.get(f"{server.url}/well") as got:
                assert got.status == 403
                assert "client certificate" in (await got.json())["error"]
            async with session.get(f"{server.url}/healthz") as got:
                assert got.status == 200
        async with calling(trusting(secret.authority, clients.issue("scheduler"), tmp_path)) as session:
            got = await session.get(f"{server.url}/well")
            assert got.status == 200
        async with calling(trusting(secret.authority, strangers.issue("stranger"), tmp_path)) as session:
            with pytest.raises(ClientConnectionError):
                await session.get(f"{server.url}/well")


async def test_the_schedulers_port_is_for_clients_of_the_authority_alone(secret: Secret, tmp_path: Path) -> None:
    clients = Authority("clients")
    secret.publish(secret.authority.issue("server"), clients)
    async with serving(secret.settings()) as server:
        for stranger in (trusting(secret.authority), trusting(secret.authority, Authority("x").issue("y"), tmp_path)):
            with pytest.raises(ClientConnectionError):
                await echo(server, stranger)
        assert await echo(server, trusting(secret.authority, clients.issue("scheduler"), tmp_path)) == "x"


@pytest.mark.slow
async def test_a_client_of_a_replaced_authority_is_out_also_in_its_old_session(secret: Secret, tmp_path: Path) -> None:
    old, new = Authority("old clients"), Authority("new clients")
    server_cert = secret.authority.issue("server")
    secret.publish(server_cert, old)
    old_context = trusting(secret.authority, old.issue("scheduler"), tmp_path)
    new_context = trusting(secret.authority, new.issue("scheduler"), tmp_path)
    async with serving(secret.settings()) as server:
        assert await echo(server, old_context) == "x"
        secret.publish(server_cert, new)

        async def is_new_accepted() -> bool:
            try:
                return await echo(server, new_context) == "x"
            except ClientConnectionError:
                return False

        while not await is_new_accepted():  # noqa: ASYNC110 - what it waits for is seen from outside only
            await asyncio.sleep(0.05)
        with pytest.raises(ClientConnectionError):
            await echo(server, old_context)


async def test_no_session_is_resumed(secret: Secret) -> None:
    context = trusting(secret.authority)
    async with serving(secret.settings()) as server:

        def visit(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
            with (
                socket.create_connection(("127.0.0.1", server.port)) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as wrapped,
            ):
                wrapped.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
                wrapped.recv(65536)
                return wrapped.session, wrapped.session_reused

        session, _ = await asyncio.to_thread(visit, None)
        assert session is not None
        _, is_reused = await asyncio.to_thread(visit, session)

    assert is_reused is False


async def test_a_client_that_does_not_finish_its_handshake_is_cut_off(secret: Secret) -> None:
    settings = replace(secret.settings(), request_timeout=IMPATIENT.request_timeout)
    async with serving(settings) as server, connected(server) as client:
        assert await client.wait_closed() == b""


async def test_of_many_clients_that_do_not_finish_their_handshakes_the_longest_make_room(secret: Secret) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(replace(secret.settings(), max_connections=4)))
        silent = [await stack.enter_async_context(connected(server)) for _ in range(10)]
        for client in silent[:6]:
            assert await client.wait_closed() == b""
        assert server.rejected[Cause.HANDSHAKE] == 6
        assert await echo(server, trusting(secret.authority)) == "x"
        assert server.rejected[Cause.HANDSHAKE] == 7
        assert await silent[6].wait_closed() == b""


async def test_a_handshake_under_way_does_not_hold_up_the_end(secret: Secret) -> None:
    async with serving(secret.settings()) as server, connected(server) as client:
        assert await echo(server, trusting(secret.authority)) == "x", "the client before it was accepted as well"
        async with asyncio.timeout(1):
            await server.stop(0)
            assert await client.wait_closed() == b""


async def test_plain_http_on_the_tls_port_does_not_disturb_the_server(secret: Secret) -> None:
    async with serving(secret.settings()) as server:
        async with connected(server) as client:
            await client.ask("/")
            await client.wait_closed()
        assert await echo(server, trusting(secret.authority)) == "x"


@pytest.mark.parametrize(
    "scenario",
    [
        test_a_renewed_certificate_holds_for_new_connections_and_open_ones_go_on,
        test_a_client_that_does_not_finish_its_handshake_is_cut_off,
        test_of_many_clients_that_do_not_finish_their_handshakes_the_longest_make_room,
        test_a_handshake_under_way_does_not_hold_up_the_end,
        test_plain_http_on_the_tls_port_does_not_disturb_the_server,
    ],
    ids=lambda scenario: str(scenario.__name__),
)
def test_the_same_holds_on_the_event_loop_of_the_programs(
    scenario: Callable[[Secret], Coroutine[None, None, None]], secret: Secret
) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario(secret))


def test_client_certificates_hold_on_the_event_loop_of_the_programs(secret: Secret, tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_the_schedulers_port_is_for_clients_of_the_authority_alone(secret, tmp_path))
