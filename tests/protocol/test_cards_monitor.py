"""The monitor over real sources: what it says when cards appear, fall sick, go and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from gcushare.cards.health import CardsSnapshot
from gcushare.cards.monitor import CardMonitor, MonitorSettings
from gcushare.cards.ports import CardSource
from gcushare.cards.selection import SourceOptions, open_source
from gcushare.cards.worker.time_limits import IsolationSettings
from gcushare.core.backoff import BackoffPolicy
from gcushare.core.cards import Health
from tests.card_health import POLICY
from tests.manual_clock import ManualClock
from tests.native.libraries import FakeLibrary, install_fake
from tests.running import running

CHANGE_TIMEOUT_S = 60.0
QUICK = MonitorSettings(
    poll_interval_s=0.05,
    no_cards_interval_s=0.05,
    least_interval_s=0.01,
    policy=replace(POLICY, bad_readings=2, good_readings=2, recover_after_s=0.1),
)
ONLY_EVENTS = MonitorSettings(poll_interval_s=3600.0, no_cards_interval_s=3600.0, least_interval_s=0.01, policy=POLICY)


class Changes:
    """What a monitor reported, for a test to wait on."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[CardsSnapshot] = asyncio.Queue()

    def __call__(self, snapshot: CardsSnapshot) -> None:
        self._queue.put_nowait(snapshot)

    async def until(self, condition: Callable[[CardsSnapshot], bool]) -> CardsSnapshot:
        while True:
            snapshot = await asyncio.wait_for(self._queue.get(), CHANGE_TIMEOUT_S)
            if condition(snapshot):
                return snapshot

    async def until_healthy(self, *expected: bool) -> CardsSnapshot:
        """Wait until the cards are healthy, or not."""
        return await self.until(lambda now: tuple(s.health is Health.HEALTHY for s in now.cards) == expected)


@asynccontextmanager
async def monitoring(source: CardSource, settings: MonitorSettings) -> AsyncIterator[tuple[CardMonitor, Changes]]:
    changes = Changes()
    monitor = CardMonitor(source, changes, settings)
    async with running(monitor.run(), "monitor"):
        await asyncio.wait_for(monitor.wait_poll(), CHANGE_TIMEOUT_S)
        yield monitor, changes


def isolated(fake: FakeLibrary, kind: str = "efml") -> CardSource:
    pauses = IsolationSettings(card_pauses=BackoffPolicy(0.1, 300.0), library_pauses=BackoffPolicy(0.05, 30.0))
    libraries = (f"{kind}={fake.path}",)
    return open_source(SourceOptions(cards=kind, libraries=libraries, pci_devices="/nonexistent", isolation=pauses))


def health_of(monitor: CardMonitor) -> list[Health]:
    return [each.health for each in monitor.snapshot.cards]


async def test_every_waiter_for_a_poll_gets_each_once_and_later_ones_in_their_turn(tmp_path: Path) -> None:
    async with monitoring(isolated(install_fake("efml", tmp_path)), QUICK) as (monitor, _):
        assert await monitor.wait_poll(0) == monitor.polls, "one that is over already is not waited for"
        seen = 0
        for _ in range(3):
            before, seen = seen, await asyncio.wait_for(monitor.wait_poll(seen), CHANGE_TIMEOUT_S)
            assert seen > before


async def test_the_file_of_simulated_cards_is_followed_without_waiting_for_the_next_poll(tmp_path: Path) -> None:
    path = tmp_path / "cards.yaml"
    path.write_text("{count: 2, memory: 16GiB}")
    async with monitoring(open_source(SourceOptions(cards=f"simulated:{path}")), ONLY_EVENTS) as (monitor, changes):
        await changes.until_healthy(True, True)
        path.write_text("cards: [{memory: 16GiB}, {memory: 16GiB, health: unhealthy, reason: too hot}]")
        assert (await changes.until_healthy(True, False)).cards[1].reason == "too hot"
        assert health_of(monitor) == [Health.HEALTHY, Health.UNHEALTHY]
        path.write_text("cards: [{memory: 24GiB}, {memory: 16GiB}]")
        assert (await changes.until_healthy(True, True)).cards[0].memory_bytes == 24 << 30
        path.write_text("cards: [{memory: 24GiB}]")
        await changes.until(lambda now: now.gone == {1})
        assert monitor.snapshot.gone == {1}
        assert health_of(monitor) == [Health.HEALTHY, Health.UNHEALTHY]


async def test_a_critical_event_makes_its_card_sick_without_waiting_for_the_next_poll(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path)
    async with monitoring(isolated(fake, "nvml"), ONLY_EVENTS) as (monitor, changes):
        fake.control("event 1 0 8 31", "event 2 1 8 79")
        assert (await changes.until_healthy(True, False)).cards[1].reason == "critical XID 79"
        assert health_of(monitor) == [Health.HEALTHY, Health.UNHEALTHY]


async def test_without_cards_it_stays_up_says_so_and_looks_again(tmp_path: Path) -> None:
    fake = install_fake("efml_native", tmp_path, "fail EfmlInit * 6")
    async with monitoring(isolated(fake), QUICK) as (monitor, changes):
        assert monitor.snapshot.cards == ()
        assert "EfmlInit failed with code 6" in monitor.problem
        fake.control("cards 1")
        await changes.until(lambda now: bool(now.cards))
        assert monitor.problem == ""


async def test_a_library_that_stops_answering_keeps_the_last_readings_for_a_bounded_time(tmp_path: Path) -> None:
    clock = ManualClock()
    fake = install_fake("efml", tmp_path)
    source = isolated(fake)
    changes = Changes()
    monitor = CardMonitor(source, changes, MonitorSettings(poll_interval_s=5.0, policy=POLICY), clock)
    await monitor.poll()
    fake.control("crash EfmlGetDevCount *")
    clock.advance(59.0)
    await monitor.poll()
    assert health_of(monitor) == [Health.HEALTHY, Health.HEALTHY]
    assert "EfmlGetDevCount" in monitor.problem
    clock.advance(1.0)
    await monitor.poll()
    assert health_of(monitor) == [Health.UNHEALTHY, Health.UNHEALTHY]
    assert monitor.snapshot.cards[0].reason.startswith("no answer for 60s: library call EfmlGetDevCount")
    await source.close()


async def test_the_monitor_reports_which_cards_are_linked(tmp_path: Path) -> None:
    fake = install_fake("nvml", tmp_path, "cards 3", "set topology 0 10")
    async with monitoring(isolated(fake, "nvml"), QUICK) as (monitor, _):
        assert [each.link_group for each in monitor.snapshot.cards] == ["link-0"] * 3
