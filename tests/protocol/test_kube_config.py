"""Finding the API server: which source wins, and what each mistake is answered with."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gcushare.core.errors import ConfigError
from gcushare.kube.connection.config import KubeConfig, find_api_server
from gcushare.kube.connection.credentials import TokenFile
from tests.protocol.runtime_certificates import Authority
from tests.unit.kube_time import VirtualTime

JsonObject = dict[str, Any]


@pytest.fixture(scope="module")
def authority_pem() -> str:
    return Authority("test authority").cert_pem.decode()


def kubeconfig(
    name: str = "lab",
    *,
    server: str = "http://10.0.0.1:8080",
    user: JsonObject | None = None,
    cluster: JsonObject | None = None,
) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": f"{name}-c", "user": f"{name}-u", "namespace": "team"}}],
        "clusters": [{"name": f"{name}-c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": f"{name}-u", "user": user or {}}],
    }


def secure(cluster: JsonObject, **parts: Any) -> JsonObject:
    return kubeconfig(server="https://h", cluster=cluster, **parts)


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def load(
    tmp_path: Path,
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> KubeConfig:
    known = {"HOME": str(tmp_path / "home"), **(environ or {})}
    return find_api_server(
        known.get("KUBECONFIG") if kubeconfig is None else str(kubeconfig),
        context,
        known,
        service_account_dir=tmp_path / "sa",
        clock=VirtualTime().clock(),
    )


async def header_of(config: KubeConfig) -> str | None:
    return await config.credentials.header()


@pytest.mark.parametrize(
    "server", ["h:1", "http://", "http://h:99999", "http://user:secret@h", "http://h/?a=b", "ftp://h", "http://[::1"]
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigError, match="address"):
        load(tmp_path, kubeconfig=write(tmp_path / "config", kubeconfig(server=server)))


def test_the_sources_are_looked_at_in_order(tmp_path: Path) -> None:
    flag = write(tmp_path / "flag", kubeconfig(server="http://flag:1"))
    listed = write(tmp_path / "listed", kubeconfig(server="http://listed:1"))
    write(tmp_path / "home/.kube/config", kubeconfig(server="http://home:1"))
    environ = {"KUBECONFIG": str(listed)}
    assert load(tmp_path, kubeconfig=flag, environ=environ).server == "http://flag:1"
    assert load(tmp_path, environ=environ).server == "http://listed:1"
    assert load(tmp_path).server == "http://home:1"


@pytest.mark.parametrize("name", ["missing", "", "directory"])
def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(ConfigError, match=r"no kubeconfig found|cannot read kubeconfig .*: Is a directory$"):
        load(tmp_path, kubeconfig=tmp_path / (name or "missing"))


def test_an_unknown_context_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    document = kubeconfig()
    document["contexts"].append({"name": "other", "context": {"cluster": "lab-c", "user": "lab-u"}})
    path = write(tmp_path / "config", document)
    with pytest.raises(ConfigError, match=r"context 'labb' is not in .*; known: 'lab', 'other'"):
        load(tmp_path, kubeconfig=path, context="labb")


def test_the_context_chosen_decides_cluster_and_namespace(tmp_path: Path) -> None:
    document = kubeconfig()
    document["contexts"].append({"name": "other", "context": {"cluster": "other-c"}})
    document["clusters"].append({"name": "other-c", "cluster": {"server": "http://other:1"}})
    path = write(tmp_path / "config", document)
    current = load(tmp_path, kubeconfig=path)
    assert (current.namespace, current.server) == ("team", "http://10.0.0.1:8080")
    chosen = load(tmp_path, kubeconfig=path, context="other")
    assert (chosen.namespace, chosen.server) == ("default", "http://other:1")


def test_of_several_files_the_first_to_define_something_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "one/config", {**kubeconfig("a", server="http://a:1"), "current-context": ""})
    second_document = kubeconfig("b", server="http://b:1")
    second_document["clusters"].append({"name": "a-c", "cluster": {"server": "http://not-this:1"}})
    second = write(tmp_path / "two/config", second_document)
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'absent'}:{second}"}
    assert load(tmp_path, environ=environ).server == "http://b:1"
    assert load(tmp_path, environ=environ, context="a").server == "http://a:1"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        pytest.param("a: [1", "is neither YAML nor JSON: .* \\(line", id="no yaml"),
        pytest.param("- 1", "malformed", id="a list"),
        pytest.param({"clusters": [{"cluster": {}}]}, "malformed.*name", id="a cluster without its name"),
        pytest.param({"users": [{"name": "u", "user": {"token": 5}}]}, "malformed", id="a token that is a number"),
        pytest.param("", "no current-context", id="empty"),
        pytest.param(kubeconfig(server=""), "names no server", id="no server"),
        pytest.param({**kubeconfig(), "clusters": []}, "cluster 'lab-c' is not in", id="unknown cluster"),
        pytest.param(secure({"certificate-authority-data": "%%"}), "not base64", id="no base64"),
        pytest.param(secure({"certificate-authority-data": "aGk="}), "not a PEM", id="not PEM"),
        pytest.param(secure({"certificate-authority": "gone"}), "cannot read", id="no CA file"),
        pytest.param(secure({}, user={"client-certificate-data": "aGk="}), "needs its key", id="no key"),
        *(
            pytest.param(kubeconfig(cluster={"proxy-url": url}), "proxy-url: .*expected 'http://host:port'", id=url)
            for url in ("socks5://127.0.0.1:1080", "localhost:3128", "http://", "http://127.0.0.1:99999")
        ),
        pytest.param(kubeconfig(cluster={"proxy-url": "//p:1"}), "proxy-url: its value", id="a proxy without a scheme"),
        pytest.param(kubeconfig(user={"as": "b\nX: y"}), "Impersonate-User .*sent.* ASCII characters$", id="two lines"),
        pytest.param(kubeconfig(user={"as-groups": ["dev"]}), "Impersonate-Group 'dev'.*write 'as'", id="group alone"),
        pytest.param(kubeconfig(user={"token": "a\nb"}), "line break", id="a token of two lines"),
        pytest.param(kubeconfig(user={"auth-provider": {"name": "oidc"}}), "'oidc' is not supp.*exec", id="provider"),
        pytest.param(kubeconfig(user={"exec": {"command": "x", "apiVersion": "v9"}}), "accepted: client.", id="exec"),
    ],
)
def test_a_broken_kubeconfig_says_what_is_wrong(tmp_path: Path, document: object, words: str) -> None:
    path = write(tmp_path / "config", document)
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, kubeconfig=path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("url", ["http://proxy:3128", "https://u:p@proxy:1"])
def test_a_clusters_proxy_is_used(tmp_path: Path, url: str) -> None:
    path = write(tmp_path / "config", kubeconfig(cluster={"proxy-url": url}))
    assert load(tmp_path, kubeconfig=path).proxy == url


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_authority_may_be_written_in_lines(tmp_path: Path, authority_pem: str, ending: str) -> None:
    data = base64.encodebytes(authority_pem.encode()).decode().replace("\n", ending)
    path = write(tmp_path / "config", secure({"certificate-authority-data": data}))
    assert load(tmp_path, kubeconfig=path).ssl is not None


def test_null_is_as_absent_as_for_kubectl(tmp_path: Path) -> None:
    document = kubeconfig(cluster={"insecure-skip-tls-verify": None, "proxy-url": None}, user={"exec": None})
    sloppy = {"exec": {"command": "x", "env": [{"name": "AWS_PROFILE"}]}}
    document["users"] += [{"name": "none", "user": None}, {"name": "absent"}, {"name": "sloppy", "user": sloppy}]
    document["clusters"].append({"name": "other", "cluster": None})
    config = load(tmp_path, kubeconfig=write(tmp_path / "config", document))
    assert (config.namespace, config.proxy) == ("team", None)


def test_a_user_who_acts_as_another_one_does_so(tmp_path: Path) -> None:
    user = {"as": "bob", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"a/b": ["c"]}, "token": "t"}
    assert load(tmp_path, kubeconfig=write(tmp_path / "config", kubeconfig(user=user))).impersonation == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-a%2Fb", "c"),
    )


def test_a_line_that_is_no_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = write(tmp_path / "config", "users:\n- token: very-secret: [\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, kubeconfig=path)
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param({}, None, id="no credentials"),
        pytest.param({"token": "abc"}, "Bearer abc", id="token"),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="password"),
        pytest.param({"username": "", "password": "", "token": ""}, None, id="empty words"),
        pytest.param({"token": "a b"}, "Bearer a b", id="a token of two words"),
        pytest.param(
            {"tokenFile": "token", "token": "not this"}, "Bearer from-file", id="token file, next to its kubeconfig"
        ),
    ],
)
async def test_each_kind_of_user_has_its_header(tmp_path: Path, user: JsonObject, header: str | None) -> None:
    write(tmp_path / "token", "from-file\n")
    config = load(tmp_path, kubeconfig=write(tmp_path / "config", kubeconfig(user=user)))
    assert await header_of(config) == header


async def test_a_token_file_that_is_gone_is_named(tmp_path: Path) -> None:
    config = load(tmp_path, kubeconfig=write(tmp_path / "config", kubeconfig(user={"tokenFile": "token"})))
    with pytest.raises(ConfigError, match=f"cannot read the token file '{tmp_path / 'token'}': No such file"):
        await header_of(config)


def service_account(tmp_path: Path, authority: str) -> dict[str, str]:
    write(tmp_path / "sa/token", "first")
    write(tmp_path / "sa/ca.crt", authority)
    write(tmp_path / "sa/namespace", "kube-system\n")
    return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_pod_uses_its_service_account(tmp_path: Path, authority_pem: str) -> None:
    write(tmp_path / "home/.kube/config", kubeconfig(server="http://home:1"))
    environ = service_account(tmp_path, authority_pem)
    config = load(tmp_path, environ=environ)
    assert (config.server, config.namespace) == ("https://10.96.0.1:443", "kube-system")
    assert config.ssl is not None
    assert len(config.ssl.get_ca_certs()) == 1
    assert await header_of(config) == "Bearer first"
    assert load(tmp_path, environ=environ, context="lab").server == "http://home:1"
    (tmp_path / "sa/ca.crt").write_text("none")
    with pytest.raises(ConfigError, match=f"service account in {tmp_path / 'sa'}"):
        load(tmp_path, environ=environ)
    (tmp_path / "sa/token").unlink()
    with pytest.raises(ConfigError, match="token' does not exist: set automountServiceAccountToken: true"):
        load(tmp_path, environ=environ)


def test_an_address_of_ipv6_is_bracketed(tmp_path: Path, authority_pem: str) -> None:
    environ = {**service_account(tmp_path, authority_pem), "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert load(tmp_path, environ=environ).server == "https://[fd00::1]:443"


async def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    # As the kubelet rotates: a new file, then the link is moved in one step.
    for name in ["one", "two"]:
        write(tmp_path / name / "token", f"token-{name}")
    link = tmp_path / "token"
    link.symlink_to(tmp_path / "one/token")
    credentials = TokenFile(link)
    assert await credentials.header() == "Bearer token-one"
    (tmp_path / "next").symlink_to(tmp_path / "two/token")
    (tmp_path / "next").rename(link)
    assert await credentials.header() == "Bearer token-two"


@pytest.mark.parametrize("content", [b"", b"  \n", b"two words", b"a\nb", "\x00\xff".encode(), b"\xff", b"a\x7f"])
async def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match="has no token"):
        await TokenFile(tmp_path / "token").header()


def test_no_secret_shows_when_a_configuration_is_printed(tmp_path: Path) -> None:
    user = {"token": "very-secret"}
    document = kubeconfig(user=user, cluster={"proxy-url": "http://u:very-secret@proxy:1"})
    assert "very-secret" not in repr(load(tmp_path, kubeconfig=write(tmp_path / "config", document)))


def test_programs_in_a_cluster_load_no_yaml() -> None:
    code = "import sys, gcushare.kube; print(sorted({'ruamel.yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
