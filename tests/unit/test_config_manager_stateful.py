"""A control-plane node over its life: admins, upgrades, moved extenders and crashes at any change, in any order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from pathlib import Path

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
    host_with,
)
from tests.unit.cut_off import Ended

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
