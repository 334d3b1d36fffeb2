"""Every plan, cut off after each of its changes: the scheduler can start there, and a re-run or recover ends right.

So it is over a node's life, with admins, upgrades, moved extenders and crashes at any change, in any order.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.core.errors import GcushareError
from tests.unit.config_manager_host import (
    EXTENDER,
    MANIFEST,
    MOVED_EXTENDER,
    Host,
    corpus_text,
    host_in_own_directory,
    host_with,
    systemd_host,
)
from tests.unit.cut_off import Ended


def upgraded(host: Host) -> None:
    host.put(MANIFEST, corpus_text("kubeadm-1.23.yaml"))


def edited(host: Host) -> None:
    host.put(MANIFEST, host.get(MANIFEST).replace(b"cpu: 100m", b"cpu: 200m"))


@dataclass(frozen=True)
class Story:
    """How a node comes to where the operation under test begins, and that operation."""

    make: Callable[[Path], Host]
    operate: Callable[[Host], Awaitable[object]] = Host.apply
    is_applied: bool = True
    since: Callable[[Host], None] = lambda host: None

    @property
    def is_recovery(self) -> bool:
        return self.operate is Host.recover

    async def prepare(self, root: Path) -> Host:
        host = self.make(root)
        if self.is_applied:
            await host.apply()
        self.since(host)
        return host


def kubeadm(minor: int) -> Callable[[Path], Host]:
    return lambda root: host_with(root, f"kubeadm-1.{minor}.yaml")


def with_admins_config(root: Path) -> Host:
    return host_with(root, "existing-config-1.28.yaml")


def move_extender(host: Host) -> Awaitable[object]:
    return host.apply(MOVED_EXTENDER)


STORIES = {
    "apply, policy": Story(kubeadm(20), is_applied=False),
    "apply, configuration": Story(kubeadm(29), is_applied=False),
    "apply, merged": Story(with_admins_config, is_applied=False),
    "extender moved, own directory": Story(host_in_own_directory, move_extender),
    "extender moved, unit": Story(systemd_host, move_extender),
    "extender moved, manifest edited": Story(kubeadm(29), move_extender, since=edited),
    "kubeadm upgrade": Story(kubeadm(22), since=upgraded),
    "recover, edited": Story(kubeadm(29), Host.recover, since=edited),
    "recover, unit": Story(systemd_host, Host.recover),
}
EVERY_DAY = {"apply, policy", "extender moved, unit", "recover, edited"}
"""One of each kind: of file, of change, and of the way back. The others are played among the slow tests."""

ALL = pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, id=name, marks=() if name in EVERY_DAY else pytest.mark.slow)
        for name, story in STORIES.items()
    ],
)


@dataclass(frozen=True)
class Played:
    """A story that was played once without any fault."""

    prepared: Host
    changes: int
    finished: dict[str, tuple[bytes, int]]
    recovered: dict[str, tuple[bytes, int]]


async def _play(story: Story, root: Path) -> Played:
    prepared = await story.prepare(root / "prepared")
    host = prepared.copied(root / "finished")
    await story.operate(host)
    finished, changes = host.tree(), host.files.changes
    if not story.is_recovery:
        await host.recover()
    return Played(prepared, changes, finished, host.tree())


def _meaningful(tree: dict[str, tuple[bytes, int]]) -> dict[str, tuple[bytes, int]]:
    """Leave the record out: it also remembers the sums of the change that was cut off."""
    return {path: state for path, state in tree.items() if not path.endswith("gcushare-config-manager.json")}


@ALL
async def test_after_a_crash_at_any_change_the_scheduler_starts_and_a_rerun_or_recovering_ends_right(
    tmp_path: Path, story: Story
) -> None:
    played = await _play(story, tmp_path)
    for number in range(1, played.changes + 1):
        host = played.prepared.copied(tmp_path / str(number))
        host.crash_at(number)
        with pytest.raises(Ended):
            await story.operate(host)
        assert host.scheduler.find_start_problem() == "", number
        again = host.copied(tmp_path / f"{number}-again")
        await story.operate(again)
        assert _meaningful(again.tree()) == _meaningful(played.finished), number
        assert again.scheduler.problem == ""
        undone = host.copied(tmp_path / f"{number}-undone")
        await undone.recover()
        assert undone.tree() == played.recovered, number


@ALL
async def test_a_full_disk_at_any_change_loses_nothing(tmp_path: Path, story: Story) -> None:
    played = await _play(story, tmp_path)
    before = played.prepared.tree()
    for number in range(1, played.changes + 1):
        host = played.prepared.copied(tmp_path / str(number))
        host.fill_disk_at(number)
        with pytest.raises(Exception, match="ENOSPC") as caught:
            await story.operate(host)
        assert host.scheduler.find_start_problem() == "", number
        if isinstance(caught.value, RolledBackError):
            assert host.tree() == before, number
        host.heal()
        await story.operate(host)
        assert _meaningful(host.tree()) == _meaningful(played.finished), number


async def test_a_crash_while_waiting_is_noticed_and_a_bad_change_undone_by_the_next_run(tmp_path: Path) -> None:
    host = kubeadm(29)(tmp_path)
    before = host.tree()
    prepared = await host.manager.prepare_apply(MOVED_EXTENDER)
    writes = sum(1 for step in prepared.plan.steps if type(step).__name__ in ("WriteFile", "Switch"))
    host.crash_at(writes)
    with pytest.raises(Ended):
        await host.apply(MOVED_EXTENDER)
    host.heal()
    host.scheduler.refuses = "10.96.200.8"
    host.scheduler.problem = "kube-scheduler ended"
    with pytest.raises(RolledBackError, match="rolled back"):
        await host.apply(MOVED_EXTENDER)
    assert host.tree() == before


async def test_what_several_runs_in_a_row_did_not_get_to_write_is_not_taken_for_edited(tmp_path: Path) -> None:
    host = kubeadm(29)(tmp_path)
    before = host.tree()
    await host.apply()
    for address in ("10.96.200.8", "10.96.200.9", "10.96.200.10"):
        host.crash_at(3)
        with pytest.raises(Ended):
            await host.apply(replace(MOVED_EXTENDER, url=f"http://{address}:32766"))
    host.heal()
    lines = await host.recover()
    assert host.tree() == before
    assert not any("edited" in line for line in lines), lines


VERSIONS = ("kubeadm-1.22.yaml", "kubeadm-1.23.yaml", "kubeadm-1.29.yaml")
ENTRY_OF = {"here": EXTENDER, "moved": MOVED_EXTENDER}
ENTRIES = st.sampled_from(sorted(ENTRY_OF))


class HostMachine(RuleBasedStateMachine):
    """``plain`` is the manifest as the admin and kubeadm left it, without anything of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)

    @initialize(version=st.sampled_from(VERSIONS))
    def a_node_is_installed(self, version: str) -> None:
        self.host: Host = host_with(self.root, version)
        self.plain = self.host.tree()

    @rule(place=ENTRIES)
    def the_manager_applies(self, place: str) -> None:
        asyncio.run(self.host.apply(ENTRY_OF[place]))
        assert ENTRY_OF[place].url.encode() in self.host.scheduler.config, "the running scheduler calls the extender"
        tree = self.host.tree()
        asyncio.run(self.host.apply(ENTRY_OF[place]))
        assert self.host.tree() == tree, "applying what is applied changes nothing"

    @rule()
    def the_manager_recovers(self) -> None:
        asyncio.run(self.host.recover())
        assert self.host.tree() == self.plain, "nothing of ours is left, and nothing of theirs is missing"

    @rule(place=st.none() | ENTRIES, number=st.integers(1, 8))
    def it_is_killed_at_a_change(self, place: str | None, number: int) -> None:
        self.host.crash_at(number)
        self._operate(place)

    @rule(place=st.none() | ENTRIES, number=st.integers(1, 8))
    def the_disk_is_full_at_a_change(self, place: str | None, number: int) -> None:
        before = self.host.tree()
        self.host.fill_disk_at(number)
        if isinstance(self._operate(place), RolledBackError):
            assert self.host.tree() in (before, self.plain), "an earlier run's change that was not proven goes as well"

    @rule(place=ENTRIES)
    def the_scheduler_refuses_what_is_applied(self, place: str) -> None:
        self.host.scheduler.refuses = ENTRY_OF[place].url
        before = self.host.tree()
        try:
            asyncio.run(self.host.apply(ENTRY_OF[place]))
        except RolledBackError:
            assert self.host.tree() in (before, self.plain), "an earlier run's change that was not proven goes as well"
        self.host.scheduler.refuses = ""

    @rule(version=st.sampled_from(VERSIONS))
    def kubeadm_upgrades(self, version: str) -> None:
        """It writes the manifest as it would be without us; what ran before is gone."""
        self.host.put(MANIFEST, corpus_text(version))
        self.plain[MANIFEST[1:]] = (corpus_text(version), 0o600)

    @invariant()
    def a_scheduler_can_start(self) -> None:
        assert self.host.scheduler.find_start_problem() == ""

    def teardown(self) -> None:
        try:
            if hasattr(self, "host"):
                self.the_manager_applies("here")
                self.the_manager_recovers()
        finally:
            self.folder.cleanup()

    def _operate(self, place: str | None) -> BaseException | None:
        host = self.host
        operation: Awaitable[object] = host.recover() if place is None else host.apply(ENTRY_OF[place])

        async def operate() -> None:
            await operation

        try:
            asyncio.run(operate())
        except (Ended, GcushareError) as error:
            return error
        finally:
            host.heal()
        return None


TestHost = HostMachine.TestCase
TestHost.settings = settings(max_examples=8, stateful_step_count=8, deadline=None, derandomize=True)
