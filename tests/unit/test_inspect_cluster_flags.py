"""kubectl's flags over a kubeconfig: each replaces its own part and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.core.errors import ConfigError
from gcushare.kube.connection.kubeconfig import Kubeconfig, read_kubeconfig, resolve_context
from gcushare.kube.connection.overrides import Overrides, no_kubeconfig, override

TEXT = """
clusters:
- {name: home, cluster: {server: 'https://home:6443', certificate-authority-data: aG9tZQ==}}
- {name: away, cluster: {server: 'https://away:6443'}}
users:
- {name: me, user: {token-file: x, token: old, client-certificate-data: YQ==}}
- {name: you, user: {token: yours}}
contexts:
- {name: main, context: {cluster: home, user: me, namespace: team}}
current-context: main
"""


@pytest.fixture
def config(tmp_path: Path) -> Kubeconfig:
    path = tmp_path / "config"
    path.write_text(TEXT)
    return read_kubeconfig([path])


def test_cluster_and_user_are_chosen_by_name_and_the_namespace_stays(config: Kubeconfig) -> None:
    found = resolve_context(override(config, None, Overrides(cluster="away", user="you")), None)
    assert (found.cluster.value.server, found.user.value.token, found.namespace) == (
        "https://away:6443",
        "yours",
        "team",
    )


def test_server_and_token_replace_only_themselves(config: Kubeconfig) -> None:
    found = resolve_context(override(config, "main", Overrides(server="http://here:1", token="new")), "main")
    assert found.cluster.value.server == "http://here:1"
    assert found.cluster.value.certificate_authority_data == "aG9tZQ=="
    assert found.user.value.token == "new"
    assert found.user.value.client_certificate_data == "YQ=="


def test_a_trusted_file_replaces_the_data_of_the_kubeconfig(config: Kubeconfig) -> None:
    wanted = Overrides(certificate_authority=Path("ca.pem"), client_certificate=Path("c.pem"), client_key=Path("k.pem"))
    found = resolve_context(override(config, None, wanted), None)
    assert found.cluster.value.certificate_authority == str(Path("ca.pem").absolute())
    assert found.cluster.value.certificate_authority_data is None
    assert (found.user.value.client_certificate_data, found.user.value.client_key) == (
        None,
        str(Path("k.pem").absolute()),
    )


def test_trusting_everybody_drops_the_authority(config: Kubeconfig) -> None:
    found = resolve_context(override(config, None, Overrides(insecure_skip_tls_verify=True)), None)
    assert found.cluster.value.insecure_skip_tls_verify
    assert found.cluster.value.certificate_authority_data is None


def test_a_server_alone_needs_no_kubeconfig(tmp_path: Path) -> None:
    found = resolve_context(override(no_kubeconfig(tmp_path), None, Overrides(server="http://here:1", token="t")), None)
    assert (found.cluster.value.server, found.user.value.token, found.namespace) == ("http://here:1", "t", "default")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Overrides(cluster="nowhere"), "cluster 'nowhere' is not in"),
        (Overrides(cluster="nowhere", server="http://here:1"), "cluster 'nowhere' is not in"),
        (Overrides(user="stranger"), "user 'stranger' is not in .*; known: 'me', 'you'"),
        (Overrides(impersonate_groups=("ops",)), "--as-group needs --as"),
    ],
)
def test_names_that_are_not_there_are_reported_with_those_that_are(
    config: Kubeconfig, wanted: Overrides, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve_context(override(config, None, wanted), None)


def test_an_unknown_context_stays_unknown(config: Kubeconfig) -> None:
    with pytest.raises(ConfigError, match="context 'other' is not in"):
        resolve_context(override(config, "other", Overrides(server="http://here:1")), "other")


def test_the_impersonated_user_becomes_headers() -> None:
    wanted = Overrides(impersonate="jane", impersonate_groups=("dev", "ops"))
    assert wanted.headers == (("Impersonate-User", "jane"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops"))
