"""The scheduler's calls over mutual TLS: who gets in, and when the first port ends."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gcushare.cluster.metrics_text import parse_figures
from gcushare.config_manager.extender_address import check_extender
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry as SchedulerSide
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderTls
from gcushare.core.errors import RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.runtime.settings.parsers import ObjectName
from gcushare.runtime.shutdown import Shutdown
from gcushare.scheduler_extender.app import Extender
from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs, VerbsSettings
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CA, CA_KEY, CLIENT_CERT, CLIENT_KEY, SCHEDULER_NAME, SERVER_CERT
from tests.api_objects import an_object, find
from tests.builders import present
from tests.extender_objects import filter_body, pod_document
from tests.protocol.extender_rig import ExtenderRig, eight_cards, extender_settings, until
from tests.protocol.runtime_certificates import Authority, Issued

SECRET = ObjectName("kube-system", "extender-verbs")
NAME = "extender.kube-system.svc"
OWN = VerbsSettings(verbs=Verbs.TLS, verbs_port=0, verbs_secret=SECRET, verbs_server_name=(NAME,))
PREFIX = ENFLAME.url_prefix
VERBS = ("filter", "prioritize", "preempt", "bind")


def put_secret(rig: ExtenderRig, data: Mapping[str, bytes] | None = None) -> None:
    """Make the Secret as the chart does, empty, or with this in it."""
    encoded = {key: base64.b64encode(value).decode() for key, value in (data or {}).items()}
    rig.api.registry.put(an_object("Secret", SECRET.name, SECRET.namespace, type="Opaque", data=encoded))


def held(rig: ExtenderRig) -> dict[str, bytes]:
    found = find(rig.api, "Secret", SECRET.name, SECRET.namespace)
    return {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}


@dataclass
class VerbsPort:
    """The rig's port of the scheduler's calls, as clients reach it."""

    rig: ExtenderRig
    folder: Path

    @property
    def url(self) -> str:
        return present(self.rig.replica.extender.verbs.server).url

    def context(self, ca: bytes, cert: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=ca.decode())
        if cert:
            file = self.folder / "client.pem"
            file.write_bytes(cert + key)
            context.load_cert_chain(file)
        return context

    def of_scheduler(self) -> ssl.SSLContext:
        data = held(self.rig)
        return self.context(data[CA], data[CLIENT_CERT], data[CLIENT_KEY])

    async def call(self, verb: str, context: ssl.SSLContext, body: bytes = b"{}") -> tuple[int, Any]:
        """Make one call over a new connection."""
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"{self.url}{PREFIX}/{verb}"
            async with session.post(url, data=body, server_hostname=NAME) as answer:
                return answer.status, await answer.json()


async def verbs_port(rig: ExtenderRig, folder: Path) -> VerbsPort:
    await until(lambda: rig.replica.extender.verbs.server is not None)
    return VerbsPort(rig, folder)


async def start(rig: ExtenderRig, data: Mapping[str, bytes] | None = None) -> None:
    put_secret(rig, data)
    rig.replica = await rig.add_replica()
    await rig.until_serving()


def rig_of(verbs: VerbsSettings = OWN) -> ExtenderRig:
    return ExtenderRig(replace(extender_settings(), verbs=verbs), starts=False)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[ExtenderRig, VerbsPort, Mapping[str, bytes]]]:
    """An extender that serves the scheduler's calls, its port, and what its Secret holds."""
    async with rig_of() as rig:
        await start(rig)
        yield rig, await verbs_port(rig, folder), held(rig)


def due() -> Mapping[str, bytes]:
    """A set whose certificates still hold, and have to be renewed."""
    issue = present(next_issue({}, Terms((NAME,), timedelta(days=30)), datetime.now(UTC) - timedelta(days=25)))
    return issue.data


async def test_an_empty_secret_is_filled_and_the_scheduler_is_served_by_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, port, _):
        rig.api.registry.put(eight_cards())
        await until(lambda: "node-1" in rig.known_nodes())
        pod = rig.api.registry.put({k: v for k, v in pod_document("p", 4).items() if k != "status"})
        await until(lambda: any(pod["metadata"]["uid"] in state.waiting for state in rig.replica.extender.states))
        status, answer = await port.call("filter", port.of_scheduler(), filter_body(pod, ["node-1"]))
        assert (status, answer["NodeNames"]) == (200, ["node-1"])


@pytest.mark.parametrize(
    "who", ["stranger", "another authority's", "another's of ours", "the server", "expired", "not yet valid"]
)
async def test_no_one_but_the_scheduler_gets_to_a_verb(who: str, tmp_path: Path) -> None:
    day = timedelta(days=1)
    async with serving(tmp_path) as (rig, port, data):
        ours = Authority.of(data[CA], data[CA_KEY])
        shown = {
            "stranger": Issued(b"", b"", 0),
            "another authority's": Authority("clients").issue(SCHEDULER_NAME),
            "another's of ours": ours.issue("prometheus"),
            "expired": ours.issue(SCHEDULER_NAME, begins=-2 * day, lasts=-day),
            "not yet valid": ours.issue(SCHEDULER_NAME, begins=timedelta(minutes=5)),
            "the server": Issued(data[SERVER_CERT], data["tls.key"], 0),
        }[who]
        context = port.context(data[CA], shown.cert_pem, shown.key_pem)
        for verb in VERBS:
            try:
                status, _ = await port.call(verb, context)
            except (aiohttp.ClientError, ssl.SSLError):
                continue  # the handshake was refused
            assert status == 403
        assert (await port.call("prioritize", port.of_scheduler()))[0] != 403
        same = ours.issue(SCHEDULER_NAME)
        context = port.context(data[CA], same.cert_pem, same.key_pem)
        assert (await port.call("prioritize", context))[0] != 403, "made the same way and valid"
        cause = "certificate" if who == "another's of ours" else "handshake"
        found = parse_figures((await rig.get("/metrics"))[1])
        assert found.sum("gcushare_turned_away_total") == len(VERBS)
        assert found.sum("gcushare_turned_away_total", cause=cause) == len(VERBS)


async def test_a_scheduler_that_trusts_another_authority_does_not_take_our_answer(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, port, data):
        context = port.context(Authority("another").cert_pem, data[CLIENT_CERT], data[CLIENT_KEY])
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await port.call("filter", context)


async def test_the_first_port_goes_on_reading_and_answers_no_verb(tmp_path: Path) -> None:
    async with rig_of() as rig:
        await start(rig)
        for path in ("/version", f"{PREFIX}/inspect", "/metrics", "/readyz", "/"):
            assert (await rig.get(path))[0] == 200, path
        for verb in VERBS:
            status, answer = await rig.post(verb, b"{}")
            assert status == 403
            assert "mutual TLS on port" in answer["error"]


@pytest.mark.slow
async def test_a_replica_is_not_ready_before_it_has_certificates(tmp_path: Path) -> None:
    async with rig_of() as rig:
        rig.replica = await rig.add_replica()
        await rig.until_serving()
        status, text = await rig.get("/readyz")
        assert status == 503
        assert "no certificates for the scheduler's calls yet" in text
        assert "gcushare_leader 0.0" in (await rig.get("/metrics"))[1]
        put_secret(rig)
        await verbs_port(rig, tmp_path)
        assert "gcushare_leader 1.0" in (await rig.get("/metrics"))[1]
        assert (await rig.get("/readyz"))[0] == 200


async def test_metrics_tell_when_the_schedulers_certificate_ends_and_whether_the_first_port_is_open() -> None:
    async with rig_of() as rig:
        await start(rig, due())
        await until(lambda: rig.replica.extender.verbs.server is not None)
        found = parse_figures((await rig.get("/metrics"))[1])
        name = "gcushare_tls_certificate_not_after_timestamp_seconds"
        in_a_year = (datetime.now(UTC) + timedelta(days=364)).timestamp()
        for purpose, file in (("server", SERVER_CERT), ("client", CLIENT_CERT), ("client_ca", CA)):
            assert found.sum(name, purpose=purpose, file=f"/secrets/{SECRET}/{file}") > in_a_year - 400 * 86400
        assert found.sum("gcushare_extender_open_verbs") == 0


# The config-manager's look before it sends the scheduler there


def scheduler_side(url: str, data: Mapping[str, bytes], **changes: bytes) -> SchedulerSide:
    given = {"ca": data[CA], "certificate": data[CLIENT_CERT], "key": data[CLIENT_KEY], **changes}
    return SchedulerSide(url=url, options=ExtenderOptions(), tls=ExtenderTls(server_name=NAME, **given))


async def test_the_scheduler_is_sent_only_if_its_certificates_are_taken(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, port, data):
        await check_extender(scheduler_side(port.url, data))
        other = Authority("clients").issue(SCHEDULER_NAME)
        for wrong in (
            scheduler_side(port.url, data, ca=Authority("another").cert_pem),
            scheduler_side(port.url, data, certificate=other.cert_pem, key=other.key_pem),
            scheduler_side("https://127.0.0.1:1", data),
        ):
            with pytest.raises(RetryableError, match="so the scheduler is left as it is"):
                await check_extender(wrong)


@pytest.mark.parametrize("verbs", [Verbs.TLS, Verbs.PLAIN], ids=lambda verbs: verbs.value)
async def test_the_first_port_is_served_with_the_certificate_of_the_secret(verbs: Verbs, tmp_path: Path) -> None:
    async with rig_of(replace(OWN, verbs=verbs, tls_from_verbs_secret=True)) as rig:
        await start(rig)
        (tmp_path / "ca.crt").write_bytes(held(rig)[CA])
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        async with aiohttp.ClientSession() as session:
            url = f"{rig.replica.url}{PREFIX}/inspect"
            async with session.get(url, ssl=context, server_hostname=NAME) as answer:
                assert (url[:5], answer.status) == ("https", 200)


async def test_a_stop_does_not_wait_for_a_certificate_that_never_comes() -> None:
    settings = replace(extender_settings(), verbs=replace(OWN, tls_from_verbs_secret=True))
    async with rig_of() as rig, KubeClient(KubeConfig(rig.api.url, "the test")) as client:
        shutdown = Shutdown()
        running = asyncio.create_task(Extender(settings, client).run(shutdown))
        await asyncio.sleep(0.2)
        assert not running.done(), "without the Secret it waits"
        shutdown.request("the test")
        await asyncio.wait_for(running, 10)
