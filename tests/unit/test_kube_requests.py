"""The request of each method of the client as its transport gets it, and the errors that it makes of odd answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import GcushareError, NotFoundError, RemoteContractError, RetryableError
from gcushare.kube.client import KubeClient, object_decoder
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Request
from gcushare.kube.errors import (
    FailedRequest,
    HttpFailure,
    NotAnApiServerError,
    UnauthorizedError,
    describe,
    error_of_answer,
)
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
    client = client_of(Recording(b'{"kind": "Pod", "metadata": 5}'))
    with pytest.raises(RemoteContractError, match=r"^GET /api/v1/namespaces/ns/pods/p was answered with no Pod: "):
        await client.get(PODS, "p", namespace="ns")
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


PAGE = b"\xef\xbb\xbf\n<!DOCTYPE html><html><head><title>Sign\n in</title></head></html>"
PODS_PATH, GROUP_PATH, PROXY_PATH = "/api/v1/pods", "/apis/resource.k8s.io/v1/deviceclasses", "/api/v1/pods/p/proxy/x"


@pytest.mark.parametrize(
    ("code", "path", "body", "expected"),
    [
        *((code, "/version", b"", NotAnApiServerError) for code in (301, 302, 307, 407)),
        *((code, PODS_PATH, PAGE, NotAnApiServerError) for code in (302, 400, 403, 404, 407, 413)),
        (400, PODS_PATH, b"Client sent an HTTP request to an HTTPS server.\n", NotAnApiServerError),
        (403, PODS_PATH, b"", NotAnApiServerError),
        (404, PODS_PATH, b"404 page not found\n", NotAnApiServerError),
        (404, PODS_PATH, b'{"detail": "Not Found"}', NotAnApiServerError),
        (404, GROUP_PATH, PAGE, NotAnApiServerError),
        (404, PROXY_PATH, PAGE, NotAnApiServerError),
        (404, GROUP_PATH, b"404 page not found\n", NotFoundError),
        (404, PROXY_PATH, b"404 page not found\n", NotFoundError),
        (401, PODS_PATH, PAGE, UnauthorizedError),
        (429, PODS_PATH, b"Too many requests, please try again later.\n", RetryableError),
        (502, PODS_PATH, PAGE, RetryableError),
    ],
)
def test_what_no_api_server_answers_is_not_taken_for_its_word(
    code: int, path: str, body: bytes, expected: type[GcushareError]
) -> None:
    error = error_of_answer(FailedRequest(f"GET {path}", writes=False), HttpFailure(code, body))
    assert type(error) is expected, str(error)
    assert ("a web page, 'Sign in'" in str(error)) == (body is PAGE)
    assert "<" not in str(error)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "nothing"),
        (b" \r\n", "nothing"),
        (b"OK", "the text 'OK'"),
        (PAGE, "a web page, 'Sign in'"),
        (b"<html>" + b"x" * 9000, "a web page"),
        (b'{"token": "hush"}', "other JSON"),
        (b"[]", "other JSON"),
    ],
)
async def test_a_success_of_another_program_is_no_object_and_no_list_of_nothing(body: bytes, what: str) -> None:
    client = client_of(Recording(body))
    for ask in (client.version(), client.list_all(PODS), client.get(PODS, "p", namespace="ns")):
        with pytest.raises(NotAnApiServerError) as caught:
            await ask
        assert str(caught.value).endswith(f", but with {what}; the address http://127.0.0.1:1 is from test")
