"""Steps of a plan: what is shown of them, and how much of the Lease each needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.plan.execute import LeaseLostError
from gcushare.config_manager.plan.steps import (
    Plan,
    RemoveFile,
    WriteFile,
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
