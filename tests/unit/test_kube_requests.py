"""The request of each method of the client as its transport gets it, and the errors that it makes of odd answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.kube.client import KubeClient, object_decoder
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Request
from gcushare.kube.errors import FailedRequest, HttpFailure, describe, error_of_answer
from gcushare.kube.resources import PODS
from gcushare.wire.objects import Pod


@dataclass
class Recording:
    """A transport that records requests and answers each with ``body``."""

    body: bytes = b"{}"
    requests: list[Request] = field(default_factory=list)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> tuple[bytes, str]:
        self.requests.append(request)
        return self.body, "Mon, 23 Nov 2026 20:00:00 GMT"

    async def post(self, request: Request) -> None:
        self.requests.append(request)

    def stream(self, request: Request, stall_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.requests.append(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield b""

        @asynccontextmanager
        async def opened() -> AsyncIterator[AsyncIterator[bytes]]:
            assert stall_s == 75.0
            yield chunks()

        return opened()


def client_of(transport: Recording) -> KubeClient:
    return KubeClient(KubeConfig("http://127.0.0.1:1", "test"), transport=transport)


async def test_an_answer_of_another_kind_names_the_request_and_the_kind() -> None:
    client = client_of(Recording(b"[]"))
    with pytest.raises(RemoteContractError, match=r"^GET /version was answered with no dict: "):
        await client.version()
    with pytest.raises(RemoteContractError, match=r"^GET /api/v1/pods was answered with no list: "):
        await client.list_all(PODS)
    with pytest.raises(RemoteContractError, match=r"a Pod"):
        object_decoder(Pod).read(b"[]")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (TimeoutError(), "no answer in time"),
        (TimeoutError("late"), "TimeoutError: late"),
        (ValueError(), "ValueError"),
        (ValueError("a\n b"), "ValueError: a b"),
    ],
)
def test_a_librarys_exception_is_described_in_one_line(failure: Exception, expected: str) -> None:
    assert describe(failure) == expected


@pytest.mark.parametrize("code", [301, 302, 307])
def test_a_redirect_is_said_to_come_from_something_in_between(code: int) -> None:
    error = error_of_answer(FailedRequest("GET /version", writes=False), HttpFailure(code))
    assert isinstance(error, RemoteContractError)
    assert str(error) == (
        f"GET /version was answered {code} by a proxy in front of the API server, or at a wrong address"
    )
