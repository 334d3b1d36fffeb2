"""The reflector against a store that pages, forgets, cuts, stalls and repeats: what a handler may rely on."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import PODS
from gcushare.wire.objects import POD, Pod
from tests.simulation.versioned_store import VersionedStore
from tests.simulation.virtual_loop import LoopClock, VirtualLoop

UIDS = st.sampled_from(["a", "b", "c", "d", "e"])
LONGEST_RECOVERY_S = 600.0
"""A silent stream is given up after 75 s, a failed attempt is repeated within 20 s, and eight of them end in a list."""


@dataclass
class Handler:
    """Keeps what it hears, and every step back in time that it was made to take."""

    known: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    backwards: list[str] = field(default_factory=list)
    lists: list[int] = field(default_factory=list)

    def applied(self, obj: Pod) -> None:
        self._hear(obj)
        self.known[obj.metadata.uid] = int(obj.metadata.resource_version)

    def deleted(self, obj: Pod) -> None:
        self._hear(obj)
        self.known.pop(obj.metadata.uid, None)

    def retained(self, uids: frozenset[str], version: str) -> None:
        self.known = {uid: each for uid, each in self.known.items() if uid in uids}
        self.lists.append(int(version))

    def _hear(self, obj: Pod) -> None:
        uid, version = obj.metadata.uid, int(obj.metadata.resource_version)
        if version < self.newest.get(uid, 0):
            self.backwards.append(f"{uid} at {version} after {self.newest[uid]}")
        self.newest[uid] = version


class ReflectorMachine(RuleBasedStateMachine):
    """Virtual time passes only in ``time_passes`` and in the rules that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.store = VersionedStore()
        self.handler = Handler()

    @initialize(
        from_cache=st.booleans(), page_size=st.integers(2, 4), objects=st.sets(UIDS), seed=st.integers(0, 1 << 30)
    )
    def it_starts(self, from_cache: bool, page_size: int, objects: set[str], seed: int) -> None:
        for uid in sorted(objects):
            self.store.write("ADDED", uid)

        async def start() -> None:
            self.reflector: Reflector[Pod] = Reflector(
                self.store.client,
                PODS,
                self.handler,
                decode=POD.read,
                settings=ReflectorSettings(from_cache=from_cache, page_size=page_size),
                clock=LoopClock(),
                rng=random.Random(seed),
            )
            self.task = asyncio.create_task(self.reflector.run())

        self.runner.run(start())

    @rule(uid=UIDS)
    def an_object_is_written(self, uid: str) -> None:
        self.store.write("MODIFIED" if uid in self.store.at(self.store.version) else "ADDED", uid)

    @rule(uid=UIDS)
    def an_object_goes(self, uid: str) -> None:
        self._delete(uid)

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.5, 3.0, 100.0, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.runner.run(asyncio.sleep(seconds))

    @rule(goes=st.sets(UIDS))
    def history_is_compacted(self, goes: set[str]) -> None:
        """What went away just before never comes as an event."""
        for uid in sorted(goes):
            self._delete(uid)
        self.store.compact()

    @rule(after=st.integers(0, 3))
    def a_stream_will_break(self, after: int) -> None:
        self.store.cut_event = after

    @rule(page=st.integers(0, 2))
    def a_list_will_break(self, page: int) -> None:
        self.store.cut_page = page

    @rule(delay_s=st.sampled_from([0.0, 0.005, 2.0, 40.0]))
    def pages_take(self, delay_s: float) -> None:
        self.store.page_delay_s = delay_s

    @rule(lag=st.integers(0, 5))
    def the_cache_lags(self, lag: int) -> None:
        self.store.cache_lag = lag

    @rule(is_silent=st.booleans(), repeats=st.booleans())
    def streams_fall_silent_or_repeat(self, is_silent: bool, repeats: bool) -> None:
        self.store.is_silent, self.store.repeats = is_silent, repeats
        self.store.wake()

    @rule()
    def someone_catches_up(self) -> None:
        async def catch_up() -> None:
            at_least = self.store.at(self.store.version)
            async with asyncio.timeout(LONGEST_RECOVERY_S):
                await self.reflector.catch_up()
            missing = {uid for uid, write in at_least.items() if self.handler.newest.get(uid, 0) < write.version}
            assert not missing, f"known too late: {missing}"
            gone = set(self.handler.known) - set(at_least)
            assert gone <= {write.uid for write in self.store.writes[1:] if write.kind == "ADDED"}
            assert not gone, f"still held although gone: {gone}"

        self.runner.run(catch_up())

    @rule()
    def faults_end(self) -> None:
        """Within a bounded time the view is the store's, whatever happened before."""
        store = self.store
        store.is_silent = store.repeats = False
        store.cut_page = store.cut_event = None
        store.page_delay_s = 0
        store.wake()

        async def recover() -> float | None:
            await asyncio.sleep(LONGEST_RECOVERY_S)
            return self.reflector.age_s

        age_s = self.runner.run(recover())
        assert self.handler.known == {uid: write.version for uid, write in store.at(store.version).items()}
        assert age_s is not None
        assert age_s <= 75

    @invariant()
    def no_handler_is_led_back_in_time(self) -> None:
        assert self.handler.backwards == []
        assert self.handler.lists == sorted(self.handler.lists)

    @invariant()
    def it_follows_still(self) -> None:
        assert not self.task.done(), "nothing that a server does ends the reflector"

    def _delete(self, uid: str) -> None:
        if uid in self.store.at(self.store.version):
            self.store.write("DELETED", uid)

    def teardown(self) -> None:
        async def stop() -> None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

        try:
            self.faults_end()
        finally:
            self.runner.run(stop())
            self.runner.close()


TestReflector = ReflectorMachine.TestCase
TestReflector.settings = settings(max_examples=15, stateful_step_count=20, deadline=None, derandomize=True)
