"""Steps of a plan: what is shown of them, and how much of the Lease each needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.plan.execute import RESTART_S, STEP_S, LeaseLostError
from gcushare.config_manager.plan.steps import (
    AwaitScheduler,
    Plan,
    RemoveFile,
    Restart,
    Step,
    Switch,
    WriteFile,
    describe,
    render_diff,
)
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from tests.unit.config_manager_host import EXTENDER, MANIFEST, TLS_EXTENDER, Host, host_with, systemd_host


def state(content: bytes) -> FileState:
    return FileState(content, 0o600, 0, 0)


def test_a_diff_shows_every_changed_file_and_no_private_key() -> None:
    before = {
        "/same": state(b"x\n"),
        "/old": state(b"a\r\nb\r\nkeyData: secret\r\n"),
        "/gone": state(b"g\xff\n"),
        "/new": None,
    }
    changed = state(b"a\r\nc\r\nkeyData: other\r\n")
    plan = Plan(
        opening=(),
        steps=(
            WriteFile(path="/old", state=changed),
            RemoveFile(path="/gone"),
            WriteFile(path="/new", state=state(b"n\n")),
        ),
    )
    assert list(render_diff(before, plan)) == [
        *("--- /gone", "+++ /dev/null", "@@ -1,2 +0,0 @@", "-g\ufffd", "-"),
        *("--- /dev/null", "+++ /new", "@@ -0,0 +1,2 @@", "+n", "+"),
        *("--- /old", "+++ /old", "@@ -1,4 +1,4 @@", " a", "-b", "+c", " keyData: (a private key)", " "),
    ]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (WriteFile(path="/a", state=state(b"12345")), "write /a (5 bytes, mode 0600)"),
        (Switch(source="/a", target="/b"), "rename /a to /b"),
        (RemoveFile(path="/a"), "remove /a"),
        (Restart(unit="/x/kube-scheduler.service"), "systemctl daemon-reload, then restart /x/kube-scheduler.service"),
        (
            AwaitScheduler(flag="config", value="/c", restarted=True, required=True),
            "wait until kube-scheduler runs with --config=/c and is healthy, else put everything back",
        ),
        (
            AwaitScheduler(flag="config", value=None, restarted=True, required=False),
            "wait until kube-scheduler runs without gcushare's --config and is healthy",
        ),
    ],
    ids=["write", "rename", "remove", "restart", "wait", "wait without"],
)
def test_a_step_is_described_in_one_line(step: Step, text: str) -> None:
    assert describe(step) == text


@dataclass
class Counted:
    """The right to act for so many questions; records how long each one was to last."""

    left: int = 1000
    margins: list[float] = field(default_factory=list)

    def holds(self, margin_s: float) -> bool:
        self.margins.append(margin_s)
        self.left -= 1
        return self.left >= 0


async def run(host: Host, tenure: Counted) -> None:
    await host.manager.carry_out(await host.manager.prepare_apply(EXTENDER), tenure)


async def test_a_restart_needs_the_lease_for_longer_than_a_file(tmp_path: Path) -> None:
    tenure = Counted()
    await run(host_with(tmp_path, "kubeadm-1.29.yaml"), tenure)
    record, config, backup, staged, switch, *waits, proof = tenure.margins
    assert [record, config, backup, staged, switch, proof] == [STEP_S, STEP_S, STEP_S, STEP_S, RESTART_S, STEP_S]
    assert set(waits) == {0.0}


async def test_a_unit_is_restarted_only_with_the_lease_before_and_after_systemd_reads_it(tmp_path: Path) -> None:
    tenure = Counted()
    await run(systemd_host(tmp_path), tenure)
    assert tenure.margins[:6] == [STEP_S, STEP_S, STEP_S, RESTART_S, RESTART_S, RESTART_S]


@pytest.mark.parametrize(
    ("left", "step"),
    [(0, "write /etc/kubernetes/gcushare-config-manager.json"), (5, "systemctl daemon-reload, then restart")],
    ids=["before the first", "between reload and restart"],
)
async def test_a_lost_lease_names_the_step_that_was_not_done(tmp_path: Path, left: int, step: str) -> None:
    host = systemd_host(tmp_path)
    with pytest.raises(LeaseLostError, match=f"lost the Lease before this step: {step}.*it continues from here"):
        await run(host, Counted(left))


async def test_a_lost_lease_ends_the_wait_for_the_scheduler(tmp_path: Path) -> None:
    with pytest.raises(LeaseLostError, match="before this step: wait until kube-scheduler is healthy"):
        await run(host_with(tmp_path, "kubeadm-1.29.yaml"), Counted(5))


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
