"""Recovering where the scheduler cannot go back: what it is to read is gone or broken, or it does not come up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.config_manager.host.running_scheduler import SchedulerUnhealthyError
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.config_manager.reconcile import State, WantedMode
from gcushare.core.errors import ConfigError, Refused
from tests.unit.config_manager_host import (
    ADMIN_CONFIG,
    CONFIG,
    MOVED_EXTENDER,
    UNIT,
    BreakingFiles,
    Host,
    crash_at,
    host_with,
    systemd_host,
)
from tests.unit.cut_off import Ended, every_cut_off
from tests.unit.test_config_manager_reconcile import Cluster, reconciler

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
    cluster = Cluster()
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
        host.files = BreakingFiles(host.root, crash_at(cut_off, host.root))
        with pytest.raises((Ended, RolledBackError)):
            await host.recover()
        assert host.get(CONFIG) == copy, cut_off
        host.put(BASE, original[BASE[1:]][0])
        host.scheduler.problem = host.scheduler.find_start_problem()
        host = host.copied(tmp_path / f"{cut_off.at}-again")
        await host.recover()
        assert host.tree() == original, cut_off
