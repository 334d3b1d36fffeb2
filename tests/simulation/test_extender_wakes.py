"""Long stretches of pods that come, wait and go, with a scheduler that hears of nothing but what is noted on pods."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gcushare.scheduler_extender.waking.waker import ANSWER_S
from tests.unit.extender_waker import Bench

STEPS = 40
SIZES = (2, 4, 6, 8, 12, 16)
CARDS = 2


class DeafScheduler:
    """Asks about a pod when it is created and when it is noted on; pods in ``stuck`` it leaves alone after that."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.bench = bench
        self._chance = chance
        self.waiting: dict[str, int] = {}
        self.holding: list[str] = []
        self.stuck: set[str] = set()
        self.ends = 0
        self.asked: Counter[str] = Counter()
        self._heard = 0

    def try_(self, name: str, units: int) -> None:
        self.asked[name] += 1
        self.waiting[name] = units
        if self.bench.ask(name, units) == "refused":
            return
        nodes = self.bench.state.ledger.nodes
        room = [
            (node, index)
            for node in sorted(nodes)
            for index, card in nodes[node].cards.items()
            if card.grantable >= units
        ]
        node, index = self._chance.choice(room)
        self.bench.hold(name, units, node, index)
        self.holding.append(name)
        del self.waiting[name]

    def end_one(self) -> None:
        if self.holding:
            self.ends += 1
            self.bench.end(self.holding.pop(self._chance.randrange(len(self.holding))))

    async def follow(self, seconds: float) -> None:
        """Let time pass, and try what is noted on meanwhile."""
        for _ in range(round(seconds / 0.25)):
            await self.bench.pass_(0.25)
            new, self._heard = self.bench.api.pods[self._heard :], len(self.bench.api.pods)
            for name in new:
                if name in self.waiting and name not in self.stuck:
                    self.try_(name, self.waiting[name])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
async def test_no_pod_that_fits_is_left_waiting_and_none_is_noted_on_without_new_room(seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(*[16] * CARDS, nodes=3)
    scheduler = DeafScheduler(bench, chance)
    async with bench.running():
        for number in range(STEPS):
            name = f"pod-{number}"
            scheduler.try_(name, chance.choice(SIZES))
            if chance.random() < 0.1 and name in scheduler.waiting:
                scheduler.stuck.add(name)
            if chance.random() < 0.5:
                scheduler.end_one()
            await scheduler.follow(chance.choice((0.0, 0.25, 1.0)))
        # Each that is left alone keeps the room from the next for a while.
        await scheduler.follow(2 + (ANSWER_S + 0.5) * (1 + len(scheduler.stuck)))

        noted = Counter(bench.api.pods)
        late = [
            name
            for name, units in scheduler.waiting.items()
            if name not in scheduler.stuck and bench.ask(name, units) == "fits"
        ]
        assert late == [], f"seed {seed}"
        rooms = scheduler.ends + 1
        assert all(noted[name] <= (rooms if name in scheduler.stuck else scheduler.asked[name]) for name in noted)
        assert noted, f"seed {seed}: nothing was noted, so nothing was shown"
