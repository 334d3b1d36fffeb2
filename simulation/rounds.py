"""A run in rounds: storms that calm follows, and what must hold then."""

from __future__ import annotations

import logging
from collections import deque
from typing import Protocol

from simulation.schedule import Action
from simulation.world import World


class Actors(Protocol):
    """Everyone in a world: who starts, does what an action says, calms down, and is checked after that."""

    def start(self) -> None: ...

    def act(self, action: Action) -> None: ...

    def calm(self) -> None: ...

    def check_settled(self) -> None: ...


def play(world: World, actors: Actors, actions: tuple[Action, ...], rounds: tuple[tuple[float, float], ...]) -> None:
    """Start, and live through the rounds: when each storm ends, and when the calm after it."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    world.within(actors.start)
    left = deque(actions)
    for storm_end_s, calm_end_s in rounds:
        while left and left[0].at_s <= storm_end_s:  # times are rounded, up to the end itself
            action = left.popleft()
            world.live_until(action.at_s)
            world.within(lambda action=action: _begin(world, actors, action))  # type: ignore[misc]
        world.live_until(storm_end_s)
        world.within(actors.calm)
        world.live_until(calm_end_s)
        world.within(actors.check_settled)


def _begin(world: World, actors: Actors, action: Action) -> None:
    world.note(f"> {action.words()[11:]}")
    actors.act(action)
