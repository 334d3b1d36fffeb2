"""Speaking TLS to a server as a kubeconfig says, client certificates and login programs included."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConfigError, GcushareError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig, find_api_server
from gcushare.kube.connection.credentials import client_context
from gcushare.kube.errors import UnauthorizedError
from gcushare.kube.resources import PODS
from tests.protocol.kube_server import ScriptedServer, answer, scripted, status
from tests.protocol.runtime_certificates import Authority, Issued

JsonObject = dict[str, Any]
PATH = "/api/v1/namespaces/ns/pods/p"
POD = {"kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("test authority")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def user_of(issued: Issued) -> JsonObject:
    return {"client-certificate-data": b64(issued.cert_pem), "client-key-data": b64(issued.key_pem)}


def credential_of(issued: Issued) -> JsonObject:
    """As a login program prints it."""
    return {"clientCertificateData": issued.cert_pem.decode(), "clientKeyData": issued.key_pem.decode()}


@asynccontextmanager
async def tls_server(authority: Authority, tmp_path: Path, *, ask: bool = False) -> AsyncIterator[ScriptedServer]:
    """Serve with a certificate of the authority; ``ask`` demands one of the client too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # As API servers are: not as strict as Python's default.
    context.load_cert_chain(*authority.issue("kubernetes.test").write(tmp_path, "server"))
    if ask:
        context.load_verify_locations(cadata=authority.cert_pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    async with scripted(context) as server:
        server.on("GET", PATH, answer(200, POD))
        yield server


def config_of(tmp_path: Path, server: str, user: JsonObject, **cluster: Any) -> KubeConfig:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    return find_api_server(str(path), environ={"HOME": str(tmp_path)})


async def ask(config: KubeConfig) -> str:
    async with KubeClient(config) as client:
        return (await client.get(PODS, "p", namespace="ns")).metadata.name


async def test_a_server_signed_by_the_configured_authority_is_trusted(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem)
    async with tls_server(authority, tmp_path) as server:
        assert await ask(config_of(tmp_path, server.server, {}, **{"certificate-authority": "ca.crt"})) == "p"


async def test_a_server_of_another_authority_is_a_configuration_to_fix(authority: Authority, tmp_path: Path) -> None:
    other = b64(Authority("another").cert_pem)
    async with tls_server(authority, tmp_path) as server:
        config = config_of(tmp_path, server.server, {"token": "t"}, **{"certificate-authority-data": other})
        with pytest.raises(ConfigError, match="check the certificate authority"):
            await ask(config)
        assert server.requests == []


async def test_the_name_to_expect_may_differ_from_the_address(authority: Authority, tmp_path: Path) -> None:
    trusted = {"certificate-authority-data": b64(authority.cert_pem)}
    async with tls_server(authority, tmp_path) as server:
        right = config_of(tmp_path, server.server, {}, **trusted, **{"tls-server-name": "kubernetes.test"})
        wrong = config_of(tmp_path, server.server, {}, **trusted, **{"tls-server-name": "other.test"})
        assert await ask(right) == "p"
        with pytest.raises(ConfigError, match=r"other\.test"):
            await ask(wrong)


async def test_verification_can_be_switched_off(authority: Authority, tmp_path: Path) -> None:
    async with tls_server(authority, tmp_path) as server:
        assert await ask(config_of(tmp_path, server.server, {}, **{"insecure-skip-tls-verify": True})) == "p"


async def test_a_client_certificate_is_shown_and_leaves_no_key_behind(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    trusted = {"certificate-authority-data": b64(authority.cert_pem)}
    async with tls_server(authority, tmp_path, ask=True) as server:
        user = user_of(authority.issue("system:admin"))
        assert await ask(config_of(tmp_path, server.server, user, **trusted)) == "p"
        assert list(scratch.iterdir()) == []
        with pytest.raises(RetryableError):
            await ask(config_of(tmp_path, server.server, {}, **trusted))


@pytest.mark.parametrize("damage", ["encrypted", "another's", "no PEM"])
def test_a_key_that_cannot_be_used_says_why(authority: Authority, tmp_path: Path, damage: str) -> None:
    issued = authority.issue("system:admin", password=b"x" if damage == "encrypted" else None)
    if damage != "encrypted":
        issued = replace(issued, key_pem=authority.issue("somebody").key_pem if damage == "another's" else b"hello")
    trusted = {"certificate-authority-data": b64(authority.cert_pem)}
    with pytest.raises(ConfigError, match="encrypted" if damage == "encrypted" else "cannot be used"):
        config_of(tmp_path, "https://127.0.0.1:1", user_of(issued), **trusted)


def test_an_authority_that_older_installers_made_is_accepted(authority: Authority) -> None:
    context = client_context(authority.cert_pem, "test")
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT


class LoginProgram:
    """A login program written in Python that counts its calls."""

    def __init__(self, folder: Path, body: str) -> None:
        self._calls = folder / "calls"
        self._script = folder / "login.py"
        self._script.write_text(
            "import json, os, sys, time\n"
            f"calls = open({str(self._calls)!r}, 'a+'); calls.write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
            "calls.flush(); calls.seek(0); number = len(calls.readlines()); calls.close()\n"
            "def credential(**status):\n"
            "    kind = dict(apiVersion='client.authentication.k8s.io/v1', kind='ExecCredential')\n"
            "    print(json.dumps(dict(kind, status=status)))\n"
            f"{body}\n"
        )

    def user(self, **more: Any) -> JsonObject:
        program = {"command": sys.executable, "args": [str(self._script)], "interactiveMode": "Never"}
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **program, **more}}

    @property
    def calls(self) -> list[JsonObject]:
        return [json.loads(line) for line in self._calls.read_text().splitlines()]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted() as running:
        yield running


async def test_a_login_program_is_asked_once_and_again_when_its_token_is_refused(
    server: ScriptedServer, tmp_path: Path
) -> None:
    program = LoginProgram(tmp_path, "credential(token=f'token-{number}-{os.environ[\"WHO\"]}')")
    server.on("GET", PATH, answer(200, POD), answer(200, POD), status(401, "Unauthorized"), *[answer(200, POD)] * 2)
    user = program.user(env=[{"name": "WHO", "value": "me"}], provideClusterInfo=True)
    (tmp_path / "ca.crt").write_bytes(b"an authority")
    extensions = [{"name": name, "extension": {"for": name}} for name in ("client.authentication.k8s.io/exec", "other")]
    cluster = {"certificate-authority": "ca.crt", "extensions": extensions}
    async with KubeClient(config_of(tmp_path, server.server, user, **cluster)) as client:
        for _ in range(3):
            await client.get(PODS, "p", namespace="ns")
        client.config.credentials.reject("Bearer token-1-me")  # a late answer to a request with the old one
        await client.get(PODS, "p", namespace="ns")
    tokens = [each.headers["Authorization"] for each in server.requests]
    assert tokens == [f"Bearer token-{number}-me" for number in [1, 1, 1, 2, 2]]
    passed: JsonObject = {"server": server.server, "certificate-authority-data": b64(b"an authority")}
    passed["config"] = extensions[0]["extension"]
    assert program.calls[0]["kind"] == "ExecCredential"
    assert program.calls[0]["spec"]["cluster"] == passed, "it need not know where the kubeconfig is"


async def test_a_token_about_to_expire_is_replaced_before_it_is_sent(server: ScriptedServer, tmp_path: Path) -> None:
    program = LoginProgram(
        tmp_path,
        "soon = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 30))\n"
        "credential(token=f'token-{number}', expirationTimestamp=soon)",
    )
    server.on("GET", PATH, answer(200, POD), answer(200, POD))
    async with KubeClient(config_of(tmp_path, server.server, program.user())) as client:
        for _ in range(2):
            await client.get(PODS, "p", namespace="ns")
    assert [each.headers["Authorization"] for each in server.requests] == ["Bearer token-1", "Bearer token-2"]


async def test_a_login_programs_client_certificate_is_used(authority: Authority, tmp_path: Path) -> None:
    program = LoginProgram(tmp_path, f"credential(**{credential_of(authority.issue('system:admin'))!r})")
    trusted = {"certificate-authority-data": b64(authority.cert_pem)}
    async with tls_server(authority, tmp_path, ask=True) as server:
        assert await ask(config_of(tmp_path, server.server, program.user(), **trusted)) == "p"


def subject_of(request: web.Request) -> str:
    """The name in the client's certificate of the connection that the request came over."""
    assert request.transport is not None
    (((_, name),),) = request.transport.get_extra_info("peercert")["subject"]
    return str(name)


async def test_a_renewed_client_certificate_is_shown_though_connections_are_kept(
    authority: Authority, tmp_path: Path
) -> None:
    pairs = [credential_of(authority.issue(name)) for name in ("old", "renewed")]
    program = LoginProgram(tmp_path, f"credential(**{pairs!r}[min(number, 2) - 1])")
    trusted = {"certificate-authority-data": b64(authority.cert_pem)}
    seen: list[str] = []

    async def expiring(request: web.Request) -> web.StreamResponse:
        seen.append(f"{request.method} {subject_of(request)}")
        is_over = len(seen) > 2 and subject_of(request) == "old"
        return await (status(401, "Unauthorized") if is_over else answer(200, POD))(request)

    async with tls_server(authority, tmp_path, ask=True) as server:
        server.on("GET", f"{PATH}2", *[expiring] * 4)
        server.on("POST", f"{PATH}2/binding", *[expiring] * 4)
        config = config_of(tmp_path, server.server, program.user(), **trusted)
        async with KubeClient(config) as client:
            for _ in range(2):
                await client.get(PODS, "p2", namespace="ns")
                await client.bind_pod(PodRef("uid", "ns", "p2"), "node", {})
    assert seen == ["GET old", "POST old", "GET old", "GET renewed", "POST renewed"]
    assert len(program.calls) == 2


@pytest.mark.parametrize(
    ("mode", "is_terminal", "says"),
    [
        pytest.param("Never", True, False, id="never, in a terminal"),
        pytest.param("IfAvailable", True, True, id="in a terminal"),
        pytest.param("IfAvailable", False, False, id="without one"),
        pytest.param("Always", True, True, id="always, in a terminal"),
        pytest.param("Always", False, None, id="always, without one"),
    ],
)
async def test_a_login_program_hears_as_from_kubectl_whether_it_may_ask_questions(
    server: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    is_terminal: bool,
    says: bool | None,
) -> None:
    program = LoginProgram(tmp_path, "credential(token=f'{os.isatty(0)}')")
    server.on("GET", PATH, answer(200, POD))
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal if is_terminal else None)
        config = config_of(tmp_path, server.server, program.user(interactiveMode=mode))
        if says is None:
            with pytest.raises(ConfigError, match="interactiveMode: Always"):
                await ask(config)
            return
        await ask(config)
    assert program.calls[0]["spec"]["interactive"] is says
    assert server.requests[-1].headers["Authorization"] == f"Bearer {says}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param("sys.exit('please log in first')", "ended with status 1", id="it fails"),
        pytest.param("print('hello')", "printed no ExecCredential", id="it prints something else"),
        pytest.param("credential(expirationTimestamp='2026-01-01T00:00:00')", "timezone", id="its time has no zone"),
        pytest.param("credential()", "neither a token nor", id="it has no credential"),
        pytest.param("credential(clientCertificateData='c')", "neither a token nor", id="its certificate has no key"),
        pytest.param(
            "print(json.dumps(dict(apiVersion='v9', kind='ExecCredential', status=dict(token='very-secret'))))",
            "answered kind 'ExecCredential' of 'v9'",
            id="it speaks another version",
        ),
    ],
)
async def test_a_login_program_that_does_not_work_says_how(
    server: ScriptedServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    config = config_of(tmp_path, server.server, LoginProgram(tmp_path, body).user())
    with pytest.raises(ConfigError, match=words) as caught:
        await ask(config)
    assert "very-secret" not in str(caught.value)
    assert ("please log in first" in capfd.readouterr().err) is ("status 1" in words)
    assert server.requests == []


async def test_a_login_program_is_ended_with_its_children_and_found_beside_a_kubeconfig_of_a_bare_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gcushare.kube.connection.exec_plugin.PLUGIN_TIMEOUT_S", 0.2)
    script = tmp_path / "login"
    script.write_text("#!/bin/sh\nsleep 60\necho late\n")
    script.chmod(0o755)
    config_of(tmp_path, "http://127.0.0.1:1", LoginProgram(tmp_path, "").user(command="./login"))
    with pytest.raises(ConfigError, match="did not answer within"):
        async with asyncio.timeout(30):
            await ask(find_api_server("kubeconfig"))


async def test_a_login_program_that_is_missing_is_named_with_its_hint(server: ScriptedServer, tmp_path: Path) -> None:
    program = {
        "command": "./no-such-login",
        "apiVersion": "client.authentication.k8s.io/v1",
        "installHint": "install it from your cloud",
    }
    with pytest.raises(ConfigError, match=r"no-such-login' cannot be run.*install it from your cloud"):
        await ask(config_of(tmp_path, server.server, {"exec": program}))


async def test_refused_credentials_say_where_they_came_from(server: ScriptedServer, tmp_path: Path) -> None:
    server.on("GET", PATH, status(401, "Unauthorized"))
    with pytest.raises(UnauthorizedError, match=r"kubeconfig \(context 'c'\)") as caught:
        await ask(config_of(tmp_path, server.server, {"token": "very-secret"}))
    assert "very-secret" not in str(caught.value)


async def test_a_tls_client_on_a_plain_server_ends_in_our_error(server: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(GcushareError, match="nothing was sent"):
        await ask(config_of(tmp_path, server.server.replace("http://", "https://"), {}))
