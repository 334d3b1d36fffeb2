"""Schedulers that systemd starts: edits of ExecStart, and apply and recover of a whole unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.config_manager.host.systemd_unit import parse_unit
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.core.errors import ConfigError, Refused
from tests.unit.config_manager_host import CONFIG, KUBEASZ, MOVED_EXTENDER, OWN_FILES, TARGET, UNIT, Host, systemd_host


def host(root: Path, *, restart: bool = True) -> Host:
    return systemd_host(root, restart=restart, mode=0o644)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x \\\n  --v=2\n", "x \\\n  --v=2 \\\n  --config=P\n", id="a line of its own"),
        pytest.param("x --v=2\n", "x --v=2 --config=P\n", id="one line"),
        pytest.param("x", "x --config=P", id="no final line end"),
        pytest.param("x \\\r\n\t--v=2\r\n", "x \\\r\n\t--v=2 \\\r\n\t--config=P\r\n", id="CRLF and tab"),
        pytest.param("x \\\n  # why\n  --v=2\n", "x \\\n  # why\n  --v=2 \\\n  --config=P\n", id="comment inside"),
        pytest.param("x --config=/a --v=2\n", "x --config=P --v=2\n", id="replaced"),
        pytest.param("x --config /a --v=2\n", "x --config P --v=2\n", id="replaced, two words"),
        pytest.param('x "--config=/a b"\n', 'x "--config=P"\n', id="replaced, quoted"),
    ],
)
def test_the_flag_is_set_in_the_units_own_style_and_taken_out_again(before: str, after: str) -> None:
    head = "[Unit]\nDescription=d\n[Service]\nExecStart=/usr/bin/kube-scheduler"
    unit = parse_unit(head + before[1:], "u")
    edited = unit.pointed_at(TARGET)
    assert edited.text == head + after[1:].replace("P", CONFIG)
    assert edited.points_at(TARGET)
    was = [flag.value for flag in unit.flags if flag.name == "config"]
    assert edited.without_trace(OWN_FILES, was[0] if was else None).text == unit.text


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[Unit]\nDescription=x\n", ConfigError, "no \\[Service\\] section"),
        ("[Unit]\nExecStart=/usr/bin/kube-scheduler\n", ConfigError, "no \\[Service\\] section"),
        ("[Service]\nExecStart=/usr/bin/kubelet\n", ConfigError, "runs 'kubelet'"),
        ("[Service]\nExecStart=/a/kube-scheduler\nExecStart=/b/kube-scheduler\n", Refused, "several commands"),
        ("[Service]\nExecStart=/a/kube-scheduler --v=2 ; /b/other\n", Refused, "several commands"),
        ("[Service]\nExecStart=/a/kube-scheduler --new\n", Refused, "--new has no value, and"),
    ],
)
def test_units_that_cannot_be_edited_are_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_unit(text, "u").pointed_at(TARGET)


def test_a_unit_may_start_the_scheduler_through_hyperkube() -> None:
    unit = parse_unit("[Service]\nExecStart=/usr/bin/hyperkube kube-scheduler --v=2\n", "u")
    edited = unit.pointed_at(TARGET)
    assert edited.text == f"[Service]\nExecStart=/usr/bin/hyperkube kube-scheduler --v=2 --config={CONFIG}\n"
    with pytest.raises(ConfigError, match="runs 'hyperkube'"):
        parse_unit("[Service]\nExecStart=/usr/bin/hyperkube kubelet\n", "u")


def test_an_empty_assignment_forgets_the_commands_before_it() -> None:
    text = "[Service]\nExecStart=/usr/bin/other\nExecStart=\nExecStart=-/usr/bin/kube-scheduler --v=2\n"
    unit = parse_unit(text, "u")
    assert unit.program == "/usr/bin/kube-scheduler"
    assert [flag.name for flag in unit.flags] == ["v"]


RESTART = "run now `systemctl daemon-reload && systemctl restart kube-scheduler.service`"


async def test_without_restart_the_files_are_written_and_the_admin_is_informed(tmp_path: Path) -> None:
    node = host(tmp_path, restart=False)
    lines = await node.apply()
    assert node.scheduler.starts == 0
    assert RESTART in lines[-1]
    assert (await node.manager.prepare_apply(MOVED_EXTENDER)).plan.steps
    recovered = (await node.recover())[-1]
    assert RESTART in recovered
    assert "until then systemd would start it with a configuration that was removed" in recovered
    assert node.get(UNIT).decode() == KUBEASZ


async def test_a_unit_that_does_not_come_up_is_rolled_back_and_restarted(tmp_path: Path) -> None:
    node = host(tmp_path)
    before = node.tree()
    node.scheduler.refuses = "gcushare-scheduler"
    with pytest.raises(RolledBackError, match="rolled back, kube-scheduler is healthy again"):
        await node.apply()
    assert node.tree() == before
    assert node.scheduler.problem == ""


async def test_a_restart_that_systemd_refuses_is_rolled_back(tmp_path: Path) -> None:
    node = host(tmp_path)
    before = node.tree()
    node.scheduler.target = "/etc/systemd/system/other.service"
    node.put("/etc/systemd/system/other.service", KUBEASZ)
    with pytest.raises(RolledBackError, match=r"no unit .* putting it back failed as well: no unit"):
        await node.apply()
    assert {path: state for path, state in node.tree().items() if "other" not in path} == before


async def test_a_node_changed_through_a_unit_is_not_changed_through_a_manifest(tmp_path: Path) -> None:
    node = host(tmp_path)
    await node.apply()
    other = Host(tmp_path, manifest="/etc/kubernetes/manifests/kube-scheduler.yaml")
    other.put(
        "/etc/kubernetes/manifests/kube-scheduler.yaml",
        "kind: Pod\nspec: {containers: [{command: [kube-scheduler, --v=2], image: a/kube-scheduler:v1.30.0}]}\n",
    )
    with pytest.raises(Refused, match="recover that one first"):
        await other.apply()
