"""The client's requests as they arrive at a server, and its answers as callers get them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gcushare.core.assignments import PodRef
from gcushare.core.errors import (
    ConflictError,
    ContractError,
    ForbiddenError,
    GcushareError,
    NotFoundError,
    RemoteContractError,
    RetryableError,
)
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Limits
from gcushare.kube.errors import (
    AlreadyExistsError,
    GoneError,
    InvalidError,
    NotAnApiServerError,
    UnansweredError,
    UnauthorizedError,
    UnknownOutcomeError,
)
from gcushare.kube.resources import PODS, Selector
from tests.protocol.kube_server import ScriptedServer, answer, drop, lines, scripted, serving, status, text

POD = PodRef("uid-1", "ns", "train")
POD_JSON = {"kind": "Pod", "metadata": {"name": "train", "namespace": "ns", "uid": "uid-1", "resourceVersion": "7"}}
POD_PATH = "/api/v1/namespaces/ns/pods/train"
BINDING_PATH = f"{POD_PATH}/binding"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted() as running:
        yield running


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[KubeClient]:
    async with KubeClient(server.config(), program="test", limits=Limits(request_s=5.0)) as opened:
        yield opened


async def test_get_decodes_the_object_and_says_who_asks(server: ScriptedServer, client: KubeClient) -> None:
    server.on("GET", POD_PATH, answer(200, POD_JSON))
    pod = await client.get(PODS, "train", namespace="ns")
    assert (pod.key, pod.metadata.resource_version) == ("ns/train", "7")
    headers = server.requests[0].headers
    assert headers["User-Agent"].startswith("test/")
    assert (headers["Accept"], headers["Accept-Encoding"]) == ("application/json", "identity")
    assert "Authorization" not in headers


async def test_an_answer_of_another_kind_names_the_request_and_the_kind(
    server: ScriptedServer, client: KubeClient
) -> None:
    server.on("GET", POD_PATH, answer(200, {"kind": "Pod", "metadata": 5}))
    with pytest.raises(RemoteContractError, match=rf"^GET {POD_PATH} was answered with no Pod: .*a Pod"):
        await READ(client)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        *((blank, "nothing") for blank in ("", " \r\n")),
        ("OK", "the text 'OK'"),
        ("\ufeff\n<!DOCTYPE html><html><head><title>Sign\n in</title></head></html>", "a web page, 'Sign in'"),
        ("<html>" + "x" * 9000, "a web page"),
        *((json_, "other JSON") for json_ in ('{"token": "hush"}', "[]", "{}", "[1")),
    ],
)
async def test_a_success_of_another_program_is_no_object_and_no_list_of_nothing(
    server: ScriptedServer, client: KubeClient, body: str, what: str
) -> None:
    for path in ("/version", "/api/v1/pods", POD_PATH):
        server.on("GET", path, text(200, body))
    for ask in (client.version(), client.list_all(PODS), READ(client)):
        with pytest.raises(NotAnApiServerError) as caught:
            await ask
        assert str(caught.value).endswith(f", but with {what}; the address {server.server} is from the test")


async def test_a_pod_of_that_name_with_another_uid_is_a_conflict(server: ScriptedServer, client: KubeClient) -> None:
    causes = [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]
    server.on("PATCH", f"{POD_PATH}/status", status(422, "Invalid", causes=causes))
    with pytest.raises(ConflictError, match="no longer uid 'uid-1'"):
        await client.patch_pod_annotations(POD, {"a": "b"})


@pytest.mark.parametrize(("server_version", "expected"), [("v1.21.14", "policy/v1beta1"), ("v1.22.0", "policy/v1")])
async def test_an_eviction_is_sent_in_the_version_that_the_server_reads(
    server: ScriptedServer, client: KubeClient, server_version: str, expected: str
) -> None:
    server.on("GET", "/version", answer(200, {"gitVersion": server_version}))
    server.on("POST", f"{POD_PATH}/eviction", answer(201, {}), answer(201, {}))
    await client.evict_pod(POD)
    await client.evict_pod(POD)
    assert [each.path for each in server.requests] == ["/version", *[f"{POD_PATH}/eviction"] * 2]
    assert [each.json["apiVersion"] for each in server.requests[1:]] == [expected] * 2


async def test_a_list_is_read_page_by_page(server: ScriptedServer, client: KubeClient) -> None:
    first = {"metadata": {"resourceVersion": "5", "continue": "tok/=&en"}, "items": [POD_JSON, POD_JSON]}
    last = {"metadata": {"resourceVersion": "5"}, "items": [POD_JSON]}
    later = text(429, "slow down", {"Retry-After": "0"})
    server.on("GET", "/api/v1/pods", answer(200, first), later, later, answer(200, last))
    found = await client.list_all(PODS, Selector(fields="spec.nodeName=n1", labels="a=b"), page_size=2)
    assert len(found) == 3
    assert server.requests[0].query == {"fieldSelector": "spec.nodeName=n1", "labelSelector": "a=b", "limit": "2"}
    assert [each.query["continue"] for each in server.requests[1:]] == ["tok/=&en"] * 3, "a busy server's page again"


BY_PAGES = ["16", *["2"] * 6, "4", "8", "16"]


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        pytest.param({"page_size": 16}, BY_PAGES, id="by pages"),
        pytest.param({"page_size": 16, "not_older_than": "0"}, BY_PAGES, id="from a cache"),
        pytest.param(
            {"page_size": None, "not_older_than": "5"}, [None, "62", "7", "7", "7", "7", "7"], id="all from a cache"
        ),
    ],
)
async def test_pages_of_very_large_objects_have_fewer_of_them(asked: dict[str, Any], sent: list[str | None]) -> None:
    """Nine of an author's largest objects, then small ones; a server that answers from its cache leaves out limits."""
    sizes = [20_000] * 9 + [100] * 21
    seen: list[tuple[str | None, str | None]] = []

    async def list_some(request: web.Request) -> web.StreamResponse:
        limit, version = request.query.get("limit"), request.query.get("resourceVersion")
        seen.append((limit, version))
        start = int(request.query.get("continue", "0"))
        end = len(sizes) if limit is None or version is not None else min(len(sizes), start + int(limit))
        items = [{"metadata": {"name": f"p{at}", "labels": {"x": "x" * sizes[at]}}} for at in range(start, end)]
        return web.json_response(
            {"metadata": {"resourceVersion": "5", "continue": str(end) if end < len(sizes) else ""}, "items": items}
        )

    async with serving(list_some) as address:
        config = KubeConfig(server=address, source="the test")
        async with KubeClient(config, limits=Limits(page_bytes=150_000)) as client:
            pages = [page.entries async for page in client.pages(PODS, **asked)]
    assert [msgspec.json.decode(each)["metadata"]["name"] for page in pages for each in page] == [
        f"p{at}" for at in range(len(sizes))
    ]
    assert [limit for limit, _ in seen] == sent
    assert [version for _, version in seen][1:] == [None] * (len(seen) - 1)


async def test_a_watch_yields_events_until_the_server_ends_it(server: ScriptedServer, client: KubeClient) -> None:
    events = [{"type": "ADDED", "object": POD_JSON}, {"type": "BOOKMARK", "object": {"metadata": {}}}]
    server.on("GET", "/api/v1/pods", lines(*events))
    async with client.watch(PODS, resource_version="5", timeout_s=60, stall_s=75) as stream:
        assert [event.type async for event in stream] == ["ADDED", "BOOKMARK"]
    query = server.requests[0].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"], query["timeoutSeconds"]) == ("5", "true", "60")


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", ContractError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (410, "Expired", GoneError),
        (413, "RequestEntityTooLarge", InvalidError),
        (418, "", NotAnApiServerError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", RetryableError),
        (500, "InternalError", RetryableError),
        (503, "ServiceUnavailable", RetryableError),
        (504, "Timeout", RetryableError),
    ],
)
async def test_each_refusal_has_its_error(
    server: ScriptedServer, client: KubeClient, code: int, reason: str, expected: type[GcushareError]
) -> None:
    server.on("GET", POD_PATH, status(code, reason))
    with pytest.raises(GcushareError) as caught:
        await client.get(PODS, "train", namespace="ns")
    assert type(caught.value) is expected
    assert f"GET {POD_PATH} was answered {code}" in str(caught.value)
    assert "said the server" in str(caught.value)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(429, RetryableError, id="too many requests: it was never tried"),
        pytest.param(500, UnknownOutcomeError, id="internal error: it may have been done"),
        pytest.param(503, UnknownOutcomeError, id="a proxy's unavailable: it may have been passed on"),
        pytest.param(504, UnknownOutcomeError, id="timeout: it may have been done"),
    ],
)
async def test_a_write_that_failed_on_the_server_says_whether_it_may_have_happened(
    server: ScriptedServer, client: KubeClient, code: int, expected: type[RetryableError]
) -> None:
    server.on("POST", BINDING_PATH, status(code, "Whatever"))
    with pytest.raises(RetryableError) as caught:
        await client.bind_pod(POD, "node-1", {})
    assert type(caught.value) is expected


async def test_the_servers_wish_to_wait_is_kept_and_bounded(server: ScriptedServer, client: KubeClient) -> None:
    server.on(
        "GET",
        POD_PATH,
        text(429, "slow down", {"Retry-After": "7"}),
        status(503, "ServiceUnavailable", retryAfterSeconds=3),
        text(503, "an hour", {"Retry-After": "3600"}),
        text(503, "a date", {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    )
    delays = []
    for _ in range(4):
        with pytest.raises(RetryableError) as caught:
            await client.get(PODS, "train", namespace="ns")
        delays.append(caught.value.delay_s)
    assert delays == [7.0, 3.0, 120.0, None]


Call = Callable[[KubeClient], Awaitable[object]]
READ: Call = lambda client: client.get(PODS, "train", namespace="ns")  # noqa: E731
BIND: Call = lambda client: client.bind_pod(POD, "node-1", {})  # noqa: E731


async def test_a_connection_lost_after_sending(server: ScriptedServer, client: KubeClient) -> None:
    """A read, which may simply be repeated."""
    # Twice: aiohttp repeats a GET once by itself when a kept connection turns out to be closed.
    server.on("GET", POD_PATH, drop(), drop())
    with pytest.raises(RetryableError) as caught:
        await READ(client)
    assert type(caught.value) is UnansweredError


async def test_a_bind_whose_connection_was_lost_is_never_sent_twice(server: ScriptedServer, client: KubeClient) -> None:
    server.on("POST", BINDING_PATH, drop(), answer(201, {}))
    with pytest.raises(UnknownOutcomeError, match="may have taken effect"):
        await client.bind_pod(POD, "node-1", {})
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("call", "expected"),
    [pytest.param(READ, UnansweredError, id="read"), pytest.param(BIND, UnknownOutcomeError, id="bind")],
)
async def test_a_server_that_hangs_is_left_after_the_deadline(
    server: ScriptedServer, call: Call, expected: type[RetryableError]
) -> None:
    server.on("GET", POD_PATH, server.hang())
    server.on("POST", BINDING_PATH, server.hang())
    async with KubeClient(server.config(), limits=Limits(request_s=0.05)) as client:
        with pytest.raises(RetryableError, match="no answer in time") as caught:
            await call(client)
    assert type(caught.value) is expected


@pytest.mark.parametrize("name", ["", "..", "../../secrets/x", "a/b", "a%2fb", "x" * 254])
async def test_a_name_that_would_address_something_else_is_never_sent(
    server: ScriptedServer, client: KubeClient, name: str
) -> None:
    with pytest.raises(RemoteContractError, match="not a name of pods"):
        await client.bind_pod(PodRef("uid", "ns", name), "node-1", {})
    assert server.requests == []


async def test_a_refused_token_is_read_again_once_even_for_a_write(server: ScriptedServer) -> None:
    credentials = Rotating(["old", "new"])
    server.on("POST", BINDING_PATH, status(401, "Unauthorized"), answer(201, {}))
    async with KubeClient(server.config(credentials)) as client:
        await client.bind_pod(POD, "node-1", {})
    assert [each.headers["Authorization"] for each in server.requests] == ["Bearer old", "Bearer new"]


async def test_a_token_that_stays_the_same_is_refused_once_and_never_shown(server: ScriptedServer) -> None:
    credentials = Rotating(["secret-token"])
    server.on("GET", POD_PATH, status(401, "Unauthorized"))
    async with KubeClient(server.config(credentials)) as client:
        with pytest.raises(UnauthorizedError, match="credentials are from the test") as caught:
            await client.get(PODS, "train", namespace="ns")
    assert "secret-token" not in str(caught.value)
    assert len(server.requests) == 1


async def test_every_request_is_reported_with_its_verb_resource_and_code(server: ScriptedServer) -> None:
    seen: list[tuple[str, str, int]] = []

    def observe(*request: Any) -> None:
        seen.append(request)

    server.on("GET", POD_PATH, answer(200, POD_JSON))
    async with KubeClient(server.config(), observer=observe) as client:
        await client.get(PODS, "train", namespace="ns")
        with pytest.raises(NotFoundError):
            await client.bind_pod(POD, "node-1", {})
    assert seen == [("get", "pods", 200), ("bind", "pods", 404)]
    seen.clear()
    async with KubeClient(KubeConfig("http://127.0.0.1:1", "the test"), observer=observe) as client:
        for request in (client.get(PODS, "train", namespace="ns"), client.bind_pod(POD, "node-1", {})):
            with pytest.raises(UnansweredError, match="nothing was sent"):
                await request
    assert seen == [("get", "pods", 0), ("bind", "pods", 0)], "without an answer there is no code"


async def test_a_binding_goes_through_the_proxy_like_any_other_request(server: ScriptedServer) -> None:
    server.on("POST", BINDING_PATH, answer(201, {"kind": "Status", "status": "Success"}))
    config = KubeConfig("http://apiserver.example:6443", "the test", proxy=server.server)
    async with KubeClient(config) as client:
        await client.bind_pod(POD, "node-1", {})
    assert [(each.method, each.path) for each in server.requests] == [("POST", BINDING_PATH)]


class Rotating:
    """Hands out its headers one after the other, the next one when the last was refused."""

    generation = 0

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens

    async def header(self) -> str | None:
        return f"Bearer {self._tokens[0]}"

    def reject(self, header: str | None) -> None:
        if len(self._tokens) > 1:
            self._tokens.pop(0)
