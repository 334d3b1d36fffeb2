"""What the doubles see of the API server: a copy that follows at a lag, as their own watches would bring it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from gcushare_playground.apiserver.storage import Change, Revision
from simulation.loop import SimulatedLoop
from simulation.store import DELETED, Doc, Key, Store


class View:
    """Objects of one kind that match; ``on_change`` hears of each change with what was known before."""

    def __init__(
        self,
        loop: SimulatedLoop,
        store: Store,
        plural: str,
        rng: random.Random,
        *,
        matches: Callable[[Doc], bool],
        on_change: Callable[[Revision | None, Revision | None], None],
    ) -> None:
        self._loop = loop
        self._store = store
        self.plural = plural
        self._rng = rng
        self._matches = matches
        self._on_change = on_change
        self._on_way: deque[tuple[float, Change]] = deque()
        self._is_moving = False
        self._is_closed = False
        self.extra_lag_s = 0.0
        self.objects: dict[Key, Revision] = {
            key: each for key, each in sorted(store.all(plural).items()) if matches(each.obj)
        }

    def close(self) -> None:
        """Follow no further."""
        self._is_closed = True
        self._on_way.clear()

    def take(self, change: Change) -> None:
        """A write was done."""
        if self._is_closed:
            return
        due_s = self._loop.now_s + 0.001 + (0.02 + self.extra_lag_s) * self._rng.random() ** 3
        if self._on_way:
            due_s = max(due_s, self._on_way[-1][0])
        self._on_way.append((due_s, change))
        self._move()

    def _move(self) -> None:
        if not self._is_moving and self._on_way:
            self._is_moving = True
            self._loop.call_world(max(0.0, self._on_way[0][0] - self._loop.now_s), self._arrive)

    def _arrive(self) -> None:
        self._is_moving = False
        while self._on_way and self._on_way[0][0] <= self._loop.now_s:
            _, change = self._on_way.popleft()
            key = change.revision.key
            before = self.objects.get(key)
            now = change.revision if change.type != DELETED and self._matches(change.revision.obj) else None
            if now is not None:
                self.objects[key] = now
            elif before is not None:
                del self.objects[key]
            if before is not None or now is not None:
                self._on_change(before, now)
        self._move()
