"""The connections that bindings travel on: kept, bounded, and never read for one request what was said to another."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConfigError, ConflictError, GcushareError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import FixedHeader
from gcushare.kube.connection.transport import Limits
from gcushare.kube.errors import UnknownOutcomeError

POD = PodRef("uid-1", "ns", "train")
PATH = "/api/v1/namespaces/ns/pods/train/binding"
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
CONFLICT = (
    b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'10\r\n{"reason":"Confl\r\n1b;x=1\r\nict","message":"bound now"}\r\n0\r\n\r\n'
)


@dataclass
class RawServer:
    """Answers each request with the bytes that come next; remembers heads and counts connections."""

    answers: list[bytes] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    closes: bool = False
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                await reader.readexactly(int(head.lower().partition("content-length: ")[2].split("\r")[0]))
                self.heads.append(head)
                self.arrived.set()
                await self.may_answer.wait()
                writer.write(self.answers.pop(0) if self.answers else CREATED)
                if self.closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def config(self, path: str = "") -> KubeConfig:
        return KubeConfig(server=self.address + path, source="the test")


@asynccontextmanager
async def serving(*answers: bytes, waits: bool = False) -> AsyncIterator[RawServer]:
    raw = RawServer(list(answers))
    if not waits:
        raw.may_answer.set()
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    raw.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield raw
        raw.may_answer.set()
        raw.cut()


async def bind(client: KubeClient, *, timeout_s: float | None = None) -> None:
    await client.bind_pod(POD, "node-1", {"a": "b"}, timeout_s=timeout_s)


async def test_a_binding_carries_its_deadline_so_that_the_server_does_nothing_late() -> None:
    async with serving() as server, KubeClient(server.config(), program="test") as client:
        await bind(client, timeout_s=2.0)
        await bind(client)
    assert [head.split(" ")[1] for head in server.heads] == [f"{PATH}?timeout=2000ms", PATH]


async def test_a_binding_is_sent_for_the_user_that_a_kubeconfig_acts_as() -> None:
    names = (("Impersonate-User", "bob"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops"))
    async with serving() as server, KubeClient(replace(server.config(), impersonation=names), program="test") as client:
        await bind(client)
    assert all(f"\r\n{name}: {value}\r\n" in server.heads[0] for name, value in names)


async def test_a_binding_that_waited_for_a_connection_in_vain_was_not_sent_and_is_in_no_doubt() -> None:
    limits = Limits(connections=2)
    async with serving(waits=True) as server, KubeClient(server.config(), program="test", limits=limits) as client:
        two = [asyncio.create_task(bind(client, timeout_s=30)) for _ in range(2)]
        async with asyncio.timeout(60):
            while len(server.heads) < 2:
                server.arrived.clear()
                await server.arrived.wait()
        for _ in range(2):
            with pytest.raises(RetryableError, match="none of 2 connections became free") as caught:
                await bind(client, timeout_s=0.1)
            assert not isinstance(caught.value, UnknownOutcomeError)
        server.may_answer.set()
        await asyncio.gather(*two)
    assert len(server.heads) == 2


async def test_a_server_says_when_to_come_again() -> None:
    answer = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}"
    async with serving(answer) as server, KubeClient(server.config()) as client:
        with pytest.raises(RetryableError) as refused:
            await bind(client)
    assert refused.value.delay_s == 7.0


async def test_any_number_of_interim_answers_is_passed_over() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2000
    async with serving(interim + CREATED) as server, KubeClient(server.config(), program="test") as client:
        await bind(client)
    assert len(server.heads) == 1


async def test_one_connection_carries_one_binding_after_the_other() -> None:
    async with serving() as server, KubeClient(server.config(), program="test") as client:
        for _ in range(3):
            await bind(client)
        assert server.connections == 1
        head = server.heads[0].splitlines()
        assert head[:2] == [f"POST {PATH} HTTP/1.1", f"Host: {server.address.removeprefix('http://')}"]
        assert "Content-Type: application/json" in head
        assert any(line.startswith("User-Agent: test/") for line in head)


async def test_a_server_under_a_path_is_asked_there() -> None:
    async with serving() as server, KubeClient(server.config("/k8s/clusters/c-1")) as client:
        await bind(client)
        assert server.heads[0].startswith(f"POST /k8s/clusters/c-1{PATH} HTTP/1.1")


async def test_an_answer_in_chunks_is_joined_and_its_connection_kept() -> None:
    async with serving(CONFLICT) as server, KubeClient(server.config()) as client:
        with pytest.raises(ConflictError, match=r"was answered 409 Conflict: bound now$"):
            await bind(client)
        await bind(client)
        assert server.connections == 1


@pytest.mark.parametrize("size", [1, 7, 40])
async def test_an_answer_may_come_in_pieces_after_an_interim_one(size: int) -> None:
    whole = b"HTTP/1.1 100 Continue\r\n\r\n" + CONFLICT
    async with serving() as server, KubeClient(server.config()) as client:
        asking = asyncio.create_task(bind(client), name="bind")
        server.may_answer.clear()
        await server.arrived.wait()
        (writer,) = server._writers
        for start in range(0, len(whole), size):
            writer.write(whole[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)
        with pytest.raises(ConflictError, match="bound now"):
            await asking


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.0 201 Created\r\nContent-Length: 2\r\n\r\n{}",
        CREATED + CONFLICT,
    ],
    ids=["said so", "an older HTTP", "an answer too many"],
)
async def test_a_connection_that_ends_with_its_answer_is_not_used_again(answer: bytes) -> None:
    async with serving(answer) as server, KubeClient(server.config()) as client:
        await bind(client)
        await bind(client)
        assert server.connections == 2


async def test_a_connection_cut_while_it_was_idle_is_replaced() -> None:
    async with serving() as server, KubeClient(server.config()) as client:
        await bind(client)
        server.cut()
        async with asyncio.timeout(60):
            while server.connections < 2:
                try:
                    await bind(client)
                except UnknownOutcomeError:
                    await asyncio.sleep(0)  # sent before the cut was seen: the caller reads the pod


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", r"is not HTTP: it begins with 'SSH-2\.0-OpenSSH'"),
        (b"HTTP/1.1 abc\r\n\r\n", None),
        (b"HTTP/1.1 201 Created\r\n\r\n{}", None),
        (b"HTTP/1.1 201 Created\r\nContent-Length: -1\r\n\r\n", None),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", None),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{}", None),
        (b"x" * 70_000, None),
    ],
)
async def test_an_answer_that_cannot_be_read_leaves_the_outcome_unknown(answer: bytes, words: str | None) -> None:
    async with serving(answer) as server, KubeClient(server.config()) as client:
        server.closes = True
        with pytest.raises(UnknownOutcomeError, match=words):
            await bind(client)
        server.closes = False
        await bind(client)
        assert server.connections == 2


async def test_what_was_left_is_never_taken_for_the_next_answer() -> None:
    async with serving(CONFLICT, waits=True) as server, KubeClient(server.config()) as client:
        with pytest.raises(UnknownOutcomeError, match="no answer in time"):
            await bind(client, timeout_s=0.1)
        server.may_answer.set()
        await bind(client)
        assert server.connections == 2


@asynccontextmanager
async def silent_port() -> AsyncIterator[str]:
    """A port whose queue of connections is full: no one accepts, and no one refuses."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as stack:
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_a_server_that_takes_no_connection_is_named() -> None:
    async with silent_port() as address, KubeClient(KubeConfig(server=address, source="the test")) as client:
        with pytest.raises(RetryableError, match=f"{address}.*did not accept a connection") as caught:
            await bind(client, timeout_s=0.1)
        assert not isinstance(caught.value, UnknownOutcomeError)


async def test_a_header_that_would_become_two_is_refused() -> None:
    async with serving() as server:
        config = KubeConfig(server=server.address, source="the test", credentials=FixedHeader("Bearer a\r\nX: y"))
        with pytest.raises(ConfigError, match="Authorization"):
            async with KubeClient(config) as client:
                await bind(client)
        assert server.heads == []


async def test_a_closed_client_says_so() -> None:
    async with serving() as server:
        client = KubeClient(server.config())
        async with client:
            await bind(client)
        with pytest.raises((RuntimeError, GcushareError), match="not open"):
            await bind(client)
