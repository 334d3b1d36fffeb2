"""What apply and recover show, refuse or leave as it is: steps, foreign files, unknown versions, ill schedulers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.plan.execute import LeaseLostError
from gcushare.config_manager.plan.steps import Plan, RemoveFile, WriteFile, render_diff
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import ConfigError, ConflictError, Refused
from tests.unit.config_manager_host import (
    ADMIN_CONFIG,
    EXTENDER,
    MANIFEST,
    POLICY,
    TLS_EXTENDER,
    Host,
    corpus_text,
    host_with,
    systemd_host,
)


def state(content: bytes) -> FileState:
    return FileState(content, 0o600, 0, 0)


def test_a_diff_shows_every_changed_file_and_no_private_key() -> None:
    was = {"/same": b"x\n", "/old": b"a\r\nb\r\nkeyData: secret\r\n", "/gone": b"g\xff\n"}
    before = {path: state(content) for path, content in was.items()} | {"/new": None}
    new = b"  keyData: >-\n    secret\n\n    secret\n  b: c\n- {keyData: 'x\n  x', b: c}\n'keyData':\n'secret',\n"
    old = WriteFile(path="/old", state=state(b"a\r\nc\r\nkeyData: other\r\n"))
    plan = Plan(opening=(), steps=(old, RemoveFile(path="/gone"), WriteFile(path="/new", state=state(new))))
    assert list(render_diff(before, plan)) == [
        *("--- /gone", "+++ /dev/null", "@@ -1,2 +0,0 @@", "-g\ufffd", "-"),
        *("--- /dev/null", "+++ /new", "@@ -0,0 +1,5 @@", "+  keyData: (a private key)", "+  b: c"),
        *("+- {keyData: (a private key)", "+'keyData: (a private key)", "+"),
        *("--- /old", "+++ /old", "@@ -1,4 +1,4 @@", " a", "-b", "+c", " keyData: (a private key)", " "),
    ]


@dataclass
class Counted:
    """The right to act for so many questions."""

    left: int

    def holds(self, margin_s: float) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize(
    ("kind", "left", "step"),
    [
        pytest.param("unit", 0, "write /etc/kubernetes/gcushare-config-manager.json", id="before the first"),
        pytest.param("unit", 5, "systemctl daemon-reload, then restart", id="between reload and restart"),
        pytest.param("static pod", 5, "wait until kube-scheduler is healthy", id="while it waits"),
    ],
)
async def test_a_lost_lease_names_the_step_that_was_not_done(tmp_path: Path, kind: str, left: int, step: str) -> None:
    host = systemd_host(tmp_path) if kind == "unit" else host_with(tmp_path, "kubeadm-1.29.yaml")
    with pytest.raises(LeaseLostError, match=f"lost the Lease before this step: {step}.*it continues from here"):
        await host.manager.carry_out(await host.manager.prepare_apply(EXTENDER), Counted(left))


async def test_an_extender_over_https_whose_certificate_cannot_be_verified_is_mentioned(tmp_path: Path) -> None:
    unverified = ExtenderEntry(url="https://10.96.1.37:32766", options=EXTENDER.options)
    for folder, extender, is_mentioned in (("a", unverified, True), ("b", TLS_EXTENDER, False), ("c", EXTENDER, False)):
        (tmp_path / folder).mkdir()
        lines = await host_with(tmp_path / folder, "kubeadm-1.29.yaml").apply(extender)
        assert any("certificate is not verified: no CA was given (--tls-ca)" in line for line in lines) is is_mentioned


async def test_other_files_of_the_manifest_directory_hide_no_scheduler(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    folder = MANIFEST.rpartition("/")[0]
    host.put(f"{folder}/a-broken.yaml", "kind: [")
    host.put(f"{folder}/b-another.yaml", "kind: Pod\nspec: {containers: [{name: etcd, image: etcd}]}\n")
    await host.apply()
    assert b"gcushare-scheduler-config-" in host.get(MANIFEST)


@pytest.mark.parametrize("number", [3, 4, 5], ids=["before the edit", "before the switch", "while waiting"])
async def test_a_manifest_that_kubeadm_rewrites_meanwhile_is_never_overwritten(tmp_path: Path, number: int) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    upgraded = corpus_text("kubeadm-1.31.yaml")

    def rewrite() -> None:
        if host.files.changes == number:
            host.put(MANIFEST, upgraded)

    host.files.after = rewrite
    with pytest.raises(ConflictError, match="changed by another program or person meanwhile"):
        await host.apply()
    assert host.get(MANIFEST) == upgraded
    await host.apply()
    assert host.scheduler.problem == ""
    await host.recover()
    assert host.get(MANIFEST) == upgraded


async def test_a_scheduler_that_is_ill_already_is_not_touched(tmp_path: Path) -> None:
    host = host_with(tmp_path, "existing-config-1.28.yaml")
    host.scheduler.refuses = "batch"
    before = host.tree()
    with pytest.raises(Refused, match="unhealthy before any change, nothing was changed"):
        await host.apply()
    assert host.tree() == before


async def test_a_second_file_for_the_same_pod_is_refused(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    host.put(MANIFEST + ".bak", corpus_text("kubeadm-1.28.yaml"))
    with pytest.raises(Refused, match=r"kube-scheduler.yaml.bak' and .* both start pod 'kube-scheduler'"):
        await host.apply()


async def test_of_two_schedulers_the_one_of_the_usual_name_is_chosen(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    second = corpus_text("kubeadm-1.29.yaml").replace(b"  name: kube-scheduler\n", b"  name: second-scheduler\n", 1)
    host.put("/etc/kubernetes/manifests/second.yaml", second)
    await host.apply()
    assert host.get("/etc/kubernetes/manifests/second.yaml") == second
    (tmp_path / MANIFEST[1:]).rename(tmp_path / "etc/kubernetes/manifests/first.yaml")
    with pytest.raises(Refused, match="several manifests run kube-scheduler"):
        await host.apply()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("apiVersion: v1\nkind: Deployment\n", "kind is 'Deployment'", id="not a pod"),
        pytest.param("kind: Pod\nspec: {containers: [{name: x}]}\n", "no container runs kube-scheduler", id="another"),
        pytest.param("", "document is empty", id="empty"),
        pytest.param("kind: [Pod\n", r"not valid YAML or JSON: .*\(line 2\)", id="broken"),
        pytest.param(b"\xff\xfe\x00", "not UTF-8", id="not text"),
    ],
)
async def test_a_named_manifest_that_is_none_is_refused_with_the_reason(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    host = Host(tmp_path, manifest=MANIFEST)
    host.put(MANIFEST, content)
    before = host.tree()
    with pytest.raises(ConfigError, match=message):
        await host.manager.prepare_apply(EXTENDER)
    assert host.tree() == before


@pytest.mark.parametrize("image", ["kube-scheduler:v1.17.4", "kube-scheduler:stable"])
async def test_a_version_that_the_image_does_not_name_is_asked_for_and_stops_only_a_change(
    tmp_path: Path, image: str
) -> None:
    host = Host(tmp_path)
    text = corpus_text("kubeadm-1.29.yaml").replace(b"kube-scheduler:v1.29.14", image.encode())
    host.put(MANIFEST, text)
    with pytest.raises(ConfigError, match=r"--scheduler-version \(accepted are 1\.19 to 1\.36 and later"):
        await host.apply()
    assert "check current k8s cluster version is unknown" in await host.recover()
    host.version = "v1.29.14"
    assert "check current k8s cluster version is v1.29.14" in await host.apply()
    host.version = None
    (tmp_path / "etc/kubernetes/gcushare-config-manager.json").unlink()
    assert "check current k8s cluster version is unknown" in await host.recover()
    assert host.get(MANIFEST) == text


@pytest.mark.parametrize("is_recover", [False, True])
@pytest.mark.parametrize("name", ["kube-scheduler.yaml", "kube-scheduler.back.yaml"])
async def test_a_copy_that_an_admin_keeps_under_a_name_of_ours_stays(
    tmp_path: Path, name: str, is_recover: bool
) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    host.put(f"/etc/kubernetes/{name}", b"mine")
    before = host.tree()
    with pytest.raises(Refused, match=f"{name}' is not gcushare's"):
        await (host.recover() if is_recover else host.apply())
    assert host.tree() == before


async def test_another_systems_change_under_our_file_name_is_not_overwritten(tmp_path: Path) -> None:
    host = Host(tmp_path)
    foreign = corpus_text("existing-policy-1.20.yaml").replace(b"/etc/kubernetes/policy.json", POLICY.encode())
    host.put(MANIFEST, foreign)
    host.put(POLICY, '{"kind": "Policy", "apiVersion": "v1"}')
    before = host.tree()
    with pytest.raises(Refused, match="another system"):
        await host.apply()
    assert host.tree() == before


@pytest.mark.parametrize(
    ("running", "api_version", "accepted"),
    [
        ("1.20.2", "v1beta2", "Policy v1 or {0}v1alpha2 or {0}v1beta1"),
        ("1.28.4", "v1beta1", "{0}v1beta3 or {0}v1"),
    ],
)
async def test_a_configuration_that_the_version_cannot_read_is_refused_with_those_it_reads(
    tmp_path: Path, running: str, api_version: str, accepted: str
) -> None:
    host = host_with(tmp_path, "existing-config-1.28.yaml")
    host.put(MANIFEST, corpus_text("existing-config-1.28.yaml").replace(b":v1.28.4", f":v{running}".encode()))
    words = "KubeSchedulerConfiguration kubescheduler.config.k8s.io/"
    host.put("/srv/scheduler/scheduler.yaml", ADMIN_CONFIG.replace("k8s.io/v1", f"k8s.io/{api_version}"))
    with pytest.raises(ConfigError) as refused:
        await host.apply()
    reason = f"kube-scheduler v{running} does not read {words}{api_version}"
    assert str(refused.value) == f"/srv/scheduler/scheduler.yaml: {reason}: write it as {accepted.format(words)}"
