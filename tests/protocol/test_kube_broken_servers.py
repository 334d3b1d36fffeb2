"""Servers that are none: whatever comes back, callers of the client see errors of ours and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import GcushareError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Limits
from gcushare.kube.resources import NODES, PODS
from tests.protocol.kube_server import raw_server, scripted, text

POD = PodRef("uid-1", "ns", "train")
Call = Callable[[KubeClient], Awaitable[object]]


async def watch(client: KubeClient) -> None:
    async with client.watch(PODS, resource_version="1", stall_s=0.1, timeout_s=60) as events:
        async for _ in events:
            pytest.fail("no event can come out of this")
    raise GcushareError("the stream ended without an event, as one may")


CALLS: dict[str, Call] = {
    "get": lambda client: client.get(PODS, "train", namespace="ns"),
    "list": lambda client: client.list_all(PODS),
    "watch": watch,
    "patch": lambda client: client.patch_node_annotations("n", {"a": "b"}),
    "create": lambda client: client.create(NODES, {"metadata": {"name": "n"}}),
    "version": lambda client: client.version(),
}

BODY_UNUSED: dict[str, Call] = {
    "bind": lambda client: client.bind_pod(POD, "node-1", {}),
    "delete": lambda client: client.delete(PODS, "train", namespace="ns"),
}
"""Calls to which a whole answer of any content is a success."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ANSWERS = {
    "nothing": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "half a header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a header without end": OK + b"X: " + b"x" * 70_000,
    "a body cut short": OK + b'Content-Length: 50\r\n\r\n{"metadata"',
    "a chunk cut short": OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{",
    "a chunk without size": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a negative length": OK + b"Content-Length: -5\r\n\r\n{}",
    "an encoding that it is not": OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
    "a status that is none": b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
    "an error cut short": b"HTTP/1.1 500 Oops\r\nContent-Length: 500\r\n\r\n{",
    "text that is no JSON": OK + b"Content-Length: 4\r\n\r\nhi!\n",
    "bytes that are no text": OK + b"Content-Length: 4\r\n\r\n\xff\xfe\x00\n",
    "another kind of JSON": OK + b"Content-Length: 3\r\n\r\n[1]",
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_no_foreign_error_passes_the_client(answer: str) -> None:
    limits = Limits(request_s=2)
    async with raw_server(ANSWERS[answer]) as url, KubeClient(KubeConfig(url, "the test"), limits=limits) as client:
        for call in CALLS.values():
            with pytest.raises(RetryableError if answer.endswith("cut short") else GcushareError):
                await call(client)
        for call in BODY_UNUSED.values():
            with suppress(GcushareError):
                await call(client)


async def test_an_answer_without_end_is_left_when_it_is_too_large() -> None:
    limits = Limits(answer_bytes=1_000_000)
    async with scripted() as server, KubeClient(server.config(), limits=limits) as client:
        server.on("GET", "/api/v1/pods", *[text(200, "x" * 3_000_000)] * 4)  # also if it is asked for fewer
        with pytest.raises(GcushareError, match="more than 1000000 bytes"):
            await client.list_all(PODS)
