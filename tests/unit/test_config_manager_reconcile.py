"""The DaemonSet's loop: rewritten manifests, moved extenders, turns, wishes, failures and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gcushare.config_manager.reconcile import AFTER_FAILURE_S, Reconciler, State, WantedMode
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls
from gcushare.core.errors import RetryableError
from gcushare.kube.election import Tenure
from gcushare.runtime.shutdown import Shutdown, root_tasks
from tests.unit.config_manager_host import (
    EXTENDER,
    MANIFEST,
    MOVED_EXTENDER,
    Cluster,
    Host,
    ManualClock,
    Member,
    host_with,
)

CHANGING = (State.CHANGING, "")


@dataclass
class Turns(Cluster):
    """A cluster whose one node has its turn whenever it asks."""

    at_turn: Callable[[], None] = lambda: None
    """What happens while a node waits for its turn."""
    turns: int = 0

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Tenure]:
        self.turns += 1
        self.at_turn()
        yield Held()


class Held:
    """The right to act that is never lost."""

    def holds(self, margin_s: float) -> bool:
        return True


def reconciler(host: Host, cluster: Turns) -> Reconciler:
    return Reconciler(
        manager=host.manager, cluster=Member(cluster), hold_lease=cluster.hold, clock=host.clock, interval_s=10.0
    )


async def test_the_first_round_applies_the_next_do_nothing_and_the_mode_recover_is_followed(
    tmp_path: Path,
) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    before, loop = host.tree(), reconciler(host, cluster)
    assert await loop.check() == "the scheduler was not checked yet"
    for _ in range(3):
        await loop.round()
    assert cluster.reported == {"cp-1": [CHANGING, (State.APPLIED, "")]}
    assert cluster.turns == 1
    assert await loop.check() is None
    cluster.wanted = WantedMode.RECOVER
    for _ in range(2):
        await loop.round()
    assert host.tree() == before
    assert cluster.reported["cp-1"][2:] == [CHANGING, (State.RECOVERED, "")]


def without_manifest(host: Host) -> None:
    (host.root / MANIFEST[1:]).unlink()


def with_linked_manifest(host: Host) -> None:
    (host.root / MANIFEST[1:]).rename(host.root / "srv/kube-scheduler.yaml")
    (host.root / MANIFEST[1:]).symlink_to("/srv/kube-scheduler.yaml")


def with_an_old_scheduler(host: Host) -> None:
    host.put(MANIFEST, host.get(MANIFEST).replace(b":v1.29.14", b":v1.17.4"))


UNCHANGEABLE = {
    "no manifest": without_manifest,
    "a link": with_linked_manifest,
    "an old scheduler": with_an_old_scheduler,
}


@pytest.mark.parametrize("make", UNCHANGEABLE.values(), ids=UNCHANGEABLE)
async def test_a_node_that_cannot_be_changed_and_never_was_does_not_keep_the_others_from_being_uninstalled(
    tmp_path: Path, make: Callable[[Host], None]
) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    make(host)
    before, loop = host.tree(), reconciler(host, cluster)
    await loop.round()
    cluster.wanted = WantedMode.RECOVER
    await loop.round()
    (failed, why), (recovered, reason) = cluster.reported["cp-1"]
    # Only a change needs the version.
    because = "" if make is with_an_old_scheduler else f"nothing of gcushare is on this node: {why}"
    assert (failed, recovered, reason) == (State.FAILED, State.RECOVERED, because)
    assert (host.tree(), await loop.check()) == (before, None)


@pytest.mark.parametrize("make", UNCHANGEABLE.values(), ids=UNCHANGEABLE)
async def test_a_node_that_was_changed_is_never_taken_for_one_that_was_not(
    tmp_path: Path, make: Callable[[Host], None]
) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    await host.apply()
    make(host)
    (tmp_path / "etc/kubernetes/kube-scheduler.back.yaml").unlink()
    for lost in ("gcushare-config-manager.json", "scheduler-extender-config-v1.23+.yaml"):
        assert not host.manager.is_untouched()
        (tmp_path / "etc/kubernetes" / lost).unlink()


async def test_a_change_that_was_rolled_back_is_tried_again_only_later_or_when_something_changed(
    tmp_path: Path,
) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    before = host.tree()
    host.scheduler.refuses = "10.96.1.37"
    loop = reconciler(host, cluster)
    for _ in range(5):
        await loop.round()
    assert cluster.turns == 1
    assert host.tree() == before
    _, (state, reason) = cluster.reported["cp-1"]
    assert (state, "rolled back" in reason) == (State.FAILED, True)
    assert await loop.check() == reason
    host.manual_clock.seconds += AFTER_FAILURE_S
    await loop.round()
    assert cluster.turns == 2
    cluster.extender = MOVED_EXTENDER
    await loop.round()
    assert cluster.reported["cp-1"][-1] == (State.APPLIED, "")


async def test_an_api_server_that_is_away_changes_nothing_and_is_reported_once_back(tmp_path: Path) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns(is_down=True)
    before = host.tree()
    loop = reconciler(host, cluster)
    await loop.round()
    assert host.tree() == before
    assert await loop.check() == "the API server does not answer"
    cluster.is_down = False
    await loop.round()
    assert cluster.reported["cp-1"] == [CHANGING, (State.APPLIED, "")]


async def test_a_wish_to_recover_that_came_while_it_waited_for_its_turn_is_obeyed(tmp_path: Path) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    before = host.tree()
    cluster.at_turn = lambda: setattr(cluster, "wanted", WantedMode.RECOVER)
    await reconciler(host, cluster).round()
    assert host.tree() == before
    assert cluster.reported["cp-1"] == [CHANGING, (State.RECOVERED, "")]


async def test_an_extender_that_moved_while_it_waited_for_its_turn_is_asked_before_the_scheduler_calls_it(
    tmp_path: Path,
) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    before = host.tree()
    cluster.at_turn = lambda: setattr(cluster, "extender", SECURE)
    loop = reconciler(host, cluster)
    loop.check_extender = refused
    await loop.round()
    assert host.tree() == before
    assert cluster.reported["cp-1"][-1][0] is State.FAILED


async def test_the_shutdown_ends_the_loop_at_once_and_the_next_start_finishes_the_change(tmp_path: Path) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    shutdown = Shutdown()
    stuck = host.clock = ManualClock(asyncio.Event())
    loop = reconciler(host, cluster)

    async def run() -> None:
        async with root_tasks(shutdown, drain_s=60) as tasks:
            tasks.start("the loop", loop.run())

    running = asyncio.create_task(run())
    await asyncio.wait_for(stuck.waiting.wait(), 60)
    shutdown.request("test")
    await asyncio.wait_for(running, 60)
    assert "gcushare" in host.get(MANIFEST).decode()
    assert cluster.reported == {"cp-1": [CHANGING]}, "who waits for every node to recover sees that this one did not"
    host.clock = ManualClock()
    assert (await host.manager.prepare_apply(EXTENDER)).plan.steps
    await reconciler(host, cluster).round()
    assert cluster.reported["cp-1"] == [CHANGING, (State.APPLIED, "")]
    assert not (await host.manager.prepare_apply(EXTENDER)).plan.steps


SECURE = replace(EXTENDER, url="https://10.96.1.37:32764", tls=ExtenderTls(ca=b"ca", certificate=b"c", key=b"k"))


async def taken(_: ExtenderEntry) -> None:
    """An extender that takes the certificates."""


async def refused(settings: ExtenderEntry) -> None:
    if settings.tls is not None:
        raise RetryableError("the extender does not answer over mutual TLS")


async def test_a_scheduler_goes_on_as_before_until_the_extender_takes_its_certificate(tmp_path: Path) -> None:
    host, cluster = host_with(tmp_path, "kubeadm-1.29.yaml"), Turns()
    loop = reconciler(host, cluster)
    loop.check_extender = refused
    await loop.round()
    assert cluster.reported["cp-1"][-1] == (State.APPLIED, ""), "plain HTTP needs no one's consent"
    before = host.tree()
    cluster.extender = SECURE
    await loop.round()
    assert cluster.reported["cp-1"][-1] == (State.FAILED, "the extender does not answer over mutual TLS")
    assert host.tree() == before
    loop.check_extender = taken
    await loop.round()
    assert cluster.reported["cp-1"][-1] == (State.APPLIED, "")
    assert host.tree() != before
