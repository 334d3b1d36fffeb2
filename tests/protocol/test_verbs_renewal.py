"""The Secret with the certificates of the scheduler's calls: renewed while a scheduler calls, and lost."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.runtime.http.scheduler_requests import Verb
from gcushare.runtime.http.scheduler_server import start_scheduler_server
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import SECRETS, CertificateKeeper
from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.wire.contracts import CA, CLIENT_CERT, CLIENT_KEY, SCHEDULER_NAME, SERVER_CERT
from gcushare_playground.apiserver import ApiServer
from tests.api_objects import an_object, delete
from tests.manual_clock import ManualClock
from tests.protocol.extender_rig import until
from tests.protocol.runtime_bench import SETTINGS

SECRET = ObjectName("kube-system", "verbs")
NAME = "extender.kube-system.svc"
DAY = timedelta(days=1)
TERMS = Terms((NAME,), 30 * DAY)
Data = Mapping[str, bytes]


def grown(age: timedelta) -> Data:
    """A set that was made so long ago, and renewed each time that it was due, the last time at least a day ago."""
    now = datetime.now(UTC)
    moment, data = now - age, dict[str, bytes]()
    while moment <= now - DAY:
        issue = next_issue(data, TERMS, moment)
        data = data if issue is None else dict(issue.data)
        moment += DAY
    return data


@asynccontextmanager
async def serving(keeper: CertificateKeeper) -> AsyncIterator[RunningServer]:
    assert await keeper.check()
    files = keeper.files

    verbs = [Verb("/filter", lambda body: b'{"size": %d}' % len(body))]
    settings = replace(SETTINGS, tls_cert_file=files.cert, tls_key_file=files.key, tls_client_ca_file=files.client_ca)
    server = await start_scheduler_server(verbs, [], settings, only_client=SCHEDULER_NAME)
    try:
        yield server
    finally:
        await server.stop(5)


def scheduler_context(data: Data, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=data[CA].decode())
    file = folder / "client.pem"
    file.write_bytes(data[CLIENT_CERT] + data[CLIENT_KEY])
    context.load_cert_chain(file)
    return context


@dataclass
class Scheduler:
    """Calls on and on."""

    url: str
    context: ssl.SSLContext
    calls: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def call_on(self, *, keeps_connection: bool) -> None:
        connector = aiohttp.TCPConnector(ssl=self.context, force_close=not keeps_connection, limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            while not self.stop.is_set():
                async with session.post(f"{self.url}/filter", data=b"{}", server_hostname=NAME) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()
                self.calls += 1
                await asyncio.sleep(
                    0.01
                )  # one after the other for as long as a renewal takes, not as many as there can be


async def shown_by(server: RunningServer, context: ssl.SSLContext) -> bytes:
    """The certificate that the server shows now, in DER."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=NAME)
    try:
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return found
    finally:
        writer.close()
        await writer.wait_closed()


async def until_shown(server: RunningServer, context: ssl.SSLContext, certificate: bytes) -> None:
    async with asyncio.timeout(60):
        while await shown_by(server, context) != ssl.PEM_cert_to_DER_cert(certificate.decode()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def put_secret(server: ApiServer, namespace: str, data: Data) -> None:
    """Make the Secret, or replace all that it holds."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    server.registry.put(an_object("Secret", SECRET.name, namespace, data=encoded))


# A certificate of 30 days is due after 20, the authority, which holds 450 days, after 300.
@pytest.mark.parametrize(
    ("age", "changes_authority"),
    [
        pytest.param(20 * DAY, False, id="certificates", marks=pytest.mark.slow),
        pytest.param(300 * DAY, True, id="authority"),
    ],
)
async def test_no_call_fails_while_certificates_are_renewed(
    age: timedelta, changes_authority: bool, server: ApiServer, client: KubeClient, tmp_path: Path
) -> None:
    before = grown(age)
    put_secret(server, SECRET.namespace, before)
    clock = ManualClock((datetime.now(UTC) - DAY).timestamp())
    folder = tmp_path / "files"
    folder.mkdir()
    keeper = CertificateKeeper(client, SECRET, TERMS, folder, clock=clock)
    async with serving(keeper) as verbs:
        scheduler = Scheduler(verbs.url, scheduler_context(before, tmp_path))
        async with asyncio.TaskGroup() as tasks:
            for keeps in (True, False, False):
                tasks.create_task(scheduler.call_on(keeps_connection=keeps))
            await until(lambda: scheduler.calls > 50)
            clock.advance(DAY.total_seconds())
            assert await keeper.check()
            renewed = await data_of(client)
            assert renewed[SERVER_CERT] != before[SERVER_CERT]
            await until_shown(verbs, scheduler.context, renewed[SERVER_CERT])
            seen = scheduler.calls
            await until(lambda: scheduler.calls > seen + 50)
            scheduler.stop.set()
        first = [data[CA].split(b"-----END")[0] for data in (before, renewed)]
        assert (first[0] != first[1]) is changes_authority


async def data_of(client: KubeClient) -> Data:
    found = await client.get(SECRETS, SECRET.name, namespace=SECRET.namespace)
    return {key: base64.b64decode(text) for key, text in found["data"].items()}


async def test_a_deleted_secret_leaves_the_files_in_use_and_is_filled_again_once_it_is_back(
    server: ApiServer, client: KubeClient, tmp_path: Path
) -> None:
    put_secret(server, SECRET.namespace, {})
    keeper = CertificateKeeper(client, SECRET, TERMS, tmp_path, clock=SystemClock())
    assert await keeper.check()
    before = keeper.files.cert.read_bytes()
    delete(server, "Secret", SECRET.name, SECRET.namespace)
    assert not await keeper.check(), "tried again soon"
    assert keeper.files.cert.read_bytes() == before
    assert keeper.obstacle is None
    put_secret(server, "default", {CA: b"not ours"})
    assert not await keeper.check(), "a Secret of that name in another namespace is another one"
    put_secret(server, SECRET.namespace, {})
    assert await keeper.check()
    assert keeper.files.cert.read_bytes() != before
