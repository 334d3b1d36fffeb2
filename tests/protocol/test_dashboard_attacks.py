"""Attacks on the page and its explanations: tokens of others, slow readers, tokens in what is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.cli.support_bundle.redact import Redactor
from gcushare.runtime.logs import TextFormatter
from gcushare.scheduler_extender.dashboard.dashboard_settings import Access
from gcushare_playground.apiserver import ApiServer, service_account
from tests.api_objects import grant
from tests.browser.page_rig import PageRig
from tests.extender_objects import a_node, a_pod
from tests.protocol.event_stream import DEADLINE_S
from tests.protocol.page_reviews import JANE, MALLORY, extender_client

EXPLAIN = "api/explain/enflame/default/w"
PATHS = (EXPLAIN, "api/cluster", "api/changes?since=00000000.0")
SLOW_READERS = 100
ADMIN = {"kind": "ServiceAccount", "name": "admin", "namespace": "default"}


@asynccontextmanager
async def page(api: ApiServer) -> AsyncIterator[tuple[PageRig, aiohttp.ClientSession]]:
    """The page with a waiting pod, behind tokens."""
    async with (
        extender_client(api) as client,
        PageRig(access=Access.TOKEN, client=client) as rig,
        aiohttp.ClientSession() as http,
    ):
        rig.see(a_node("node-1", 4), a_pod("w", 8))
        yield rig, http


async def status(http: aiohttp.ClientSession, url: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with http.get(url, headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize("path", PATHS)
async def test_what_one_reader_was_just_answered_is_not_answered_to_another(reviewing: ApiServer, path: str) -> None:
    async with page(reviewing) as (rig, http):
        jane, mallory = reviewing.add_user(JANE), reviewing.add_user(MALLORY)
        # This service account may do everything in its own namespace.
        grant(reviewing, ADMIN, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], "admin", "default")
        admin = reviewing.add_user(service_account("default", "admin"))
        url = rig.url + path
        for _ in range(2):
            assert await status(http, url, jane) == 200
            assert await status(http, url, mallory) == 403
            assert await status(http, url, admin) == 403
            assert await status(http, url, None) == 401
            assert await status(http, url, jane[:-1]) == 401
            assert await status(http, f"{url}{'&' if '?' in url else '?'}token={jane}", None) == 401


async def test_no_token_is_in_a_log_line_or_in_an_answer(
    reviewing: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with page(reviewing) as (rig, http):
        tokens = [reviewing.add_user(JANE), reviewing.add_user(MALLORY), "made-up-and-secret"]
        answers = []
        for token in tokens:
            for path in (EXPLAIN, "api/cluster", "api/explain/none/default/w", f"api/cluster?token={token}"):
                async with http.get(rig.url + path, headers={"Authorization": f"Bearer {token}"}) as answer:
                    answers.append(await answer.text())
    written = caplog.text + "".join(answers)
    assert "reader let in" in written, "the log was caught"
    assert [token for token in tokens if token in written] == []


async def test_no_token_typed_into_an_address_is_in_a_bundle(
    reviewing: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A token typed into the path, where browsers keep it in their history, is logged, and appears nowhere else."""
    caplog.set_level(logging.DEBUG)
    token = reviewing.add_user(JANE)
    paths = (token, f"{EXPLAIN}/{token}", f"api/explain/enflame/default/{token}", f"?token={token}", f"api/{token}?a=b")
    async with page(reviewing) as (rig, http):
        for path in paths:
            for sent in (None, token):
                await status(http, rig.url + path, sent)
    written = "\n".join(TextFormatter().format(each) for each in caplog.records if each.name.startswith("gcushare"))
    assert token in written, "the control: a path is logged"
    kept = Redactor().text(cut_log(written))
    assert token not in kept
    assert "method=GET" in kept


# A hundred connections that fill up.
@pytest.mark.slow
async def test_a_hundred_readers_that_never_read_keep_no_other_from_the_page() -> None:
    """Each asks for a large snapshot and leaves the answer in the socket."""
    async with PageRig() as rig, aiohttp.ClientSession() as http:
        rig.see(*(a_node(f"n{number:04d}", *[16] * 8) for number in range(2000)))
        host, port = rig.server.url.removeprefix("http://").split(":")
        slow = [await asyncio.open_connection(host, int(port), limit=1024) for _ in range(SLOW_READERS)]
        try:
            for _, writer in slow:
                writer.write(b"GET /dashboard/api/cluster HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(DEADLINE_S):
                for reader, _ in slow:
                    assert (await reader.readline()).endswith(b"200 OK\r\n")
                async with http.get(f"{rig.url}api/cluster") as answer:
                    assert len((await answer.json())["nodes"]) == 2000
        finally:
            for _, writer in slow:
                writer.transport.abort()
