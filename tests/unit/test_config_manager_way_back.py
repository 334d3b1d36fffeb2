"""An admin edits our copy of the configuration, or the scheduler cannot go back: no setting is lost."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from gcushare.config_manager.host.running_scheduler import SchedulerUnhealthyError
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.config_manager.reconcile import State, WantedMode
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.core.errors import ConfigError, Refused
from tests.unit.config_manager_host import (
    ADMIN_CONFIG,
    CONFIG,
    EXTENDER,
    MANIFEST,
    MOVED_EXTENDER,
    POLICY,
    UNIT,
    Host,
    ManualClock,
    corpus_text,
    host_with,
    systemd_host,
)
from tests.unit.cut_off import Ended, every_cut_off
from tests.unit.test_config_manager_reconcile import Turns, reconciler

GOOD = b"percentageOfNodesToScore: 70\n"
BAD = b"percentageOfNodesToFilter: 70\n"


def edit(host: Host, line: bytes) -> bytes:
    host.put(CONFIG, host.get(CONFIG) + line, mode=0o644)
    return host.get(CONFIG)


def edit_policy(host: Host) -> bytes:
    document = json.loads(host.get(POLICY)) | {"hardPodAffinitySymmetricWeight": 3}
    host.put(POLICY, json.dumps(document, indent=2), mode=0o644)
    return host.get(POLICY)


async def applied(root: Path, kind: str = "static pod") -> Host:
    host = systemd_host(root, version="v1.29.0") if kind == "unit" else host_with(root, "kubeadm-1.29.yaml")
    await host.apply()
    return host


@pytest.mark.parametrize(
    ("kind", "extender"),
    [("static pod", EXTENDER), ("unit", MOVED_EXTENDER)],
    ids=["static pod", "a unit, which starts again for another change alone"],
)
async def test_an_edit_that_the_scheduler_refuses_is_taken_out_and_the_next_round_goes_on_without_it(
    tmp_path: Path, kind: str, extender: ExtenderEntry
) -> None:
    host = await applied(tmp_path, kind)
    working = host.get(CONFIG).replace(EXTENDER.url.encode(), extender.url.encode())
    edited = edit(host, BAD)
    host.scheduler.refuses = "percentageOfNodesToFilter"
    with pytest.raises(RolledBackError, match="is healthy again"):
        await host.apply(extender)
    assert b"--config" not in host.get(host.target)
    await host.apply(extender)
    assert (host.get(CONFIG), host.scheduler.config, host.scheduler.problem) == (working, working, "")
    assert host.get(CONFIG + ".edited") == edited


@pytest.mark.parametrize("broken", [b"a: [\n", b"", b"\xff\xfe", b"kind: X\n"])
async def test_an_edit_that_is_no_configuration_is_kept_aside(tmp_path: Path, broken: bytes) -> None:
    host = await applied(tmp_path)
    good = host.get(CONFIG)
    host.put(CONFIG, broken)
    await host.apply()
    assert (host.get(CONFIG), host.get(CONFIG + ".edited")) == (good, broken)


async def test_a_bad_edit_whose_round_was_cut_off_is_taken_out_by_a_round_that_changes_more(tmp_path: Path) -> None:
    host = await applied(tmp_path)
    edited = edit(host, BAD)
    host.scheduler.refuses = "percentageOfNodesToFilter"
    host.crash_at(4)
    host.clock = EndingClock()
    with pytest.raises(Ended):
        await host.apply()
    host = host.copied(tmp_path / "again")
    host.heal()
    with pytest.raises(RolledBackError, match="is healthy again"):
        await host.apply(MOVED_EXTENDER)
    assert host.get(MANIFEST) == corpus_text("kubeadm-1.29.yaml")
    assert b"percentageOfNodesToFilter" in edited
    assert b"percentageOfNodesToFilter" in host.get(CONFIG + ".edited")


class EndingClock(ManualClock):
    """The machine goes down at the first wait."""

    async def sleep(self, delay_s: float) -> None:
        raise Ended(delay_s)


async def test_a_later_change_that_fails_returns_to_the_edit_that_was_seen_healthy(tmp_path: Path) -> None:
    host = await applied(tmp_path)
    edit(host, GOOD)
    await host.apply()
    working = host.tree()
    host.scheduler.refuses = "10.96.200.8"
    with pytest.raises(RolledBackError, match="is healthy again"):
        await host.apply(MOVED_EXTENDER)
    assert host.tree() == working


async def test_a_full_disk_before_the_switch_leaves_an_edit_where_it_is(tmp_path: Path) -> None:
    host = await applied(tmp_path)
    edit(host, GOOD)
    before = host.tree()
    host.fill_disk_at(1)
    with pytest.raises(RolledBackError, match="file was not changed"):
        await host.apply()
    assert host.tree() == before


@pytest.mark.parametrize(
    ("old", "new", "path", "rounds_after_the_edit"),
    [("kubeadm-1.22.yaml", "kubeadm-1.23.yaml", POLICY, 1), ("kubeadm-1.23.yaml", "kubeadm-1.29.yaml", CONFIG, 0)],
)
async def test_an_edit_that_the_upgraded_scheduler_cannot_read_is_kept_aside(
    tmp_path: Path, old: str, new: str, path: str, rounds_after_the_edit: int
) -> None:
    host = host_with(tmp_path, old)
    await host.apply()
    edit(host, GOOD) if path == CONFIG else edit_policy(host)
    for _ in range(rounds_after_the_edit):
        await host.apply()
    edited = host.get(path)
    host.put(MANIFEST, corpus_text(new))
    lines = await host.apply()
    assert host.get(path + ".edited") == edited
    assert not re.search(b"percentageOfNodesToScore|hardPodAffinity", host.scheduler.config)
    assert any("cannot read it" in line for line in lines)
    assert any(f"kept as {path}.edited" in line for line in lines)
    tree = host.tree()
    await host.apply()
    assert host.tree() == tree


async def test_an_edit_is_kept_also_if_its_usual_name_is_a_link(tmp_path: Path) -> None:
    host = await applied(tmp_path)
    usual = tmp_path / (CONFIG + ".edited")[1:]
    usual.symlink_to("/srv/scheduler/scheduler.yaml")
    edited = edit(host, GOOD)
    await host.recover()
    (kept,) = usual.parent.glob("*.edited-*")
    assert (kept.read_bytes(), usual.is_symlink()) == (edited, True)


async def test_a_crash_at_any_change_of_an_upgrade_loses_no_edit(tmp_path: Path) -> None:
    prepared = host_with(tmp_path / "prepared", "kubeadm-1.22.yaml")
    await prepared.apply()
    edited = edit_policy(prepared)
    prepared.put(MANIFEST, corpus_text("kubeadm-1.23.yaml"))
    for cut_off in every_cut_off([False]):
        host = prepared.copied(tmp_path / str(cut_off.at))
        host.crash_at(cut_off)
        with suppress(Ended):
            await host.apply()
        host.heal()
        await host.apply()
        assert host.get(POLICY + ".edited") == edited, cut_off


BASE = "/srv/scheduler/scheduler.yaml"


def host_of(kind: str, root: Path) -> Host:
    """A node whose admin gave the scheduler a configuration."""
    if kind == "pod":
        return host_with(root, "existing-config-1.28.yaml")
    host = systemd_host(root, version="v1.28.4")
    host.put(UNIT, host.get(UNIT).replace(b"--v=2", b"--config=%s" % BASE.encode()))
    return host


GONE = f"'{BASE}', which kube-scheduler reads by --config, does not exist here"


@pytest.mark.parametrize(
    ("kind", "left", "says"),
    [
        ("pod", None, GONE),
        ("unit without a restart", None, GONE),
        ("unit", "kind: [", f"{BASE}: not valid YAML"),
        ("pod", ADMIN_CONFIG.replace("io/v1", "io/v1beta1"), f"{BASE}: kube-scheduler v1.28.4 does not read .*v1beta1"),
    ],
    ids=["gone", "unit, not restarted", "broken", "too old"],
)
async def test_a_scheduler_that_would_end_is_left_running_and_the_file_that_it_lacks_is_named(
    tmp_path: Path, kind: str, left: str | None, says: str
) -> None:
    host = host_of(kind.split()[0], tmp_path)
    original = host.tree()
    host.restart = "without" not in kind
    await host.apply()
    host.scheduler.start()
    (tmp_path / BASE[1:]).unlink() if left is None else host.put(BASE, left)
    before, starts = host.tree(), host.scheduler.starts
    with pytest.raises(Refused, match=f"(?s)nothing was changed: {says}.*from '{CONFIG.replace('+', '.')}'") as refused:
        await host.recover()
    assert "recover then" in str(refused.value)
    with pytest.raises(ConfigError, match=BASE):
        await host.apply(MOVED_EXTENDER)
    assert (host.tree(), host.scheduler.starts, host.scheduler.problem) == (before, starts, "")
    host.put(BASE, original[BASE[1:]][0])
    await host.recover()
    assert host.tree() == original


async def test_an_uninstall_waits_for_a_node_whose_scheduler_would_end(tmp_path: Path) -> None:
    host = host_of("pod", tmp_path)
    cluster = Turns()
    loop = reconciler(host, cluster)
    await loop.round()
    (tmp_path / BASE[1:]).rename(tmp_path / "srv/scheduler/moved.yaml")
    cluster.wanted, before = WantedMode.RECOVER, host.tree()
    await loop.round()
    state, reason = cluster.reported["cp-1"][-1]
    assert (state, BASE in reason, host.tree()) == (State.FAILED, True, before)
    (tmp_path / "srv/scheduler/moved.yaml").rename(tmp_path / BASE[1:])
    await loop.round()
    assert cluster.reported["cp-1"][-1] == (State.RECOVERED, "")


async def test_a_scheduler_that_ends_without_our_change_gets_it_back(tmp_path: Path) -> None:
    host = host_of("unit", tmp_path)
    original = host.tree()
    await host.apply()
    host.put(BASE, host.get(BASE) + b"percentageOfNodesToFilter: 70\n")
    host.scheduler.refuses = "percentageOfNodesToFilter"
    before = host.tree()
    with pytest.raises(RolledBackError, match=r"180 s: kube-scheduler ended: .*rolled back, .*is healthy again"):
        await host.recover()
    assert (host.tree(), host.scheduler.problem) == (before, "")
    host.put(BASE, original[BASE[1:]][0])
    await host.recover()
    assert host.tree() == original


async def test_a_scheduler_that_was_ill_before_goes_back_and_our_files_stay_until_it_is_well(tmp_path: Path) -> None:
    host = host_of("pod", tmp_path)
    original = host.tree()
    await host.apply()
    copy = host.get(CONFIG)
    host.scheduler.refuses = "schedulerName: batch"
    host.scheduler.problem = "kube-scheduler ended"
    for _ in range(2):
        with pytest.raises(SchedulerUnhealthyError, match=r"is as it was without gcushare.*'/etc/.*v1\.23\+\.yaml'"):
            await host.recover()
        assert (host.get(host.target), host.get(CONFIG)) == (original[host.target[1:]][0], copy)
    host.scheduler.refuses = ""
    host.scheduler.problem = ""
    await host.recover()
    assert host.tree() == original


async def test_a_way_back_that_is_cut_off_anywhere_keeps_our_copy_until_the_scheduler_is_well(tmp_path: Path) -> None:
    prepared = host_of("pod", tmp_path / "prepared")
    original = prepared.tree()
    await prepared.apply()
    copy = prepared.get(CONFIG)
    bad = prepared.get(BASE) + b"percentageOfNodesToFilter: 70\n"
    prepared.put(BASE, bad)
    prepared.scheduler.refuses = "percentageOfNodesToFilter"
    for cut_off in every_cut_off([False]):
        host = prepared.copied(tmp_path / str(cut_off.at))
        host.crash_at(cut_off)
        with pytest.raises((Ended, RolledBackError)):
            await host.recover()
        assert host.get(CONFIG) == copy, cut_off
        host.put(BASE, original[BASE[1:]][0])
        host.scheduler.problem = host.scheduler.find_start_problem()
        host = host.copied(tmp_path / f"{cut_off.at}-again")
        await host.recover()
        assert host.tree() == original, cut_off
