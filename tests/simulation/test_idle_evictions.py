"""Random processes, failures, restarts, wishes and budgets: no pod is evicted that was not idle, and idle ones go."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.errors import RetryableError
from gcushare.kube.errors import EvictionRefusedError
from gcushare.node.over_use.evictor import Evictor
from gcushare.node.over_use.idle_settings import IdleAction
from gcushare.node.over_use.notes import PodNotes
from gcushare.node.over_use.over_use_settings import OverUseSettings
from gcushare.wire.annotations import IDLE_SINCE, WHEN_IDLE
from tests.extender_objects import Document
from tests.played_api import Asked, PlayedApi
from tests.unit.over_use_node import AFTER_S, POLL_S, IdleNode

PODS, POLLS, PAUSE_S = 5, 300, 20.0
CONTROLLERS = ("ReplicaSet web-1", "Job train", "", "DaemonSet watcher")


class World(PlayedApi, IdleNode):
    """A node whose API server and pods do what ``rng`` says. ``blind_s``: when no reading could tell."""

    exempt = ()

    def __init__(self, folder: Path, rng: random.Random) -> None:
        super().__init__(folder, pods=PODS, idle=IdleAction.EVICT)
        self.rng = rng
        self.is_calm = False
        self.busy: dict[str, int] = {}
        self.used_s: dict[str, float] = {}
        self.blind_s = 0.0
        self.noted_s: dict[str, float] = {}
        self.evicted: list[tuple[float, str]] = []
        for number, entry in enumerate(self.store.entries.values()):
            controller = CONTROLLERS[number % len(CONTROLLERS)]
            entry.ref = replace(entry.ref, controller=controller, priority=rng.randrange(2))
            entry.annotations = dict(entry.annotations)
        self.start_program()

    def start_program(self) -> None:
        """The plugin as it is after a start: it remembers nothing."""
        settings = OverUseSettings(over_use_pause=PAUSE_S, over_use_exempt=())
        clock = {"clock": lambda: self.now_s}
        self.idle = self.make_watch()
        self.evictor = Evictor(
            settings, self.watch, self.idle, self.store, self.client, self.heard,
            longest_wait_s=600.0, wall_clock_s=lambda: self.now_s, **clock,
        )  # fmt: skip
        self.notes_writer = PodNotes(IDLE_SINCE, self.store, self.client, lambda: self.idle.notes, **clock)
        self.blind_s = self.now_s

    async def answer(self, asked: Asked) -> Document:
        if asked.plural == "version":
            return {"gitVersion": "v1.30.0"}
        if asked.verb == "evict":
            self._evict(self.store.entries[asked.body["deleteOptions"]["preconditions"]["uid"]].ref)
        else:
            self._note(asked.body["metadata"]["uid"], asked.annotations[IDLE_SINCE])
        return {}

    def _note(self, uid: str, text: str | None) -> None:
        if not self.is_calm and self.rng.random() < 0.2:
            raise RetryableError("the API server is away")
        entry = self.store.entries[uid]
        kept = {key: value for key, value in entry.annotations.items() if key != IDLE_SINCE}
        entry.annotations = kept | ({IDLE_SINCE: text} if text is not None else {})
        self.noted_s[entry.ref.name] = self.now_s

    def _evict(self, pod: PodRef) -> None:
        if not self.is_calm and self.rng.random() < 0.3:
            raise EvictionRefusedError("a budget allows none")
        self.check_eviction(pod)
        self.evicted.append((self.now_s, pod.name))
        self.store.pod_deleted(pod.uid, is_over=True)

    def check_eviction(self, pod: PodRef) -> None:
        """What must be true of a pod in the moment of its eviction."""
        annotations = self.store.entries[pod.uid].annotations
        quiet_since_s = max(self.used_s.get(pod.name, 0.0), self.blind_s)
        assert self.now_s - quiet_since_s >= AFTER_S, f"{pod} was used, or not read, at {quiet_since_s}"
        assert IDLE_SINCE in annotations
        assert self.now_s - self.noted_s[pod.name] >= AFTER_S
        wish = annotations.get(WHEN_IDLE, "")
        assert wish == "evict" or (pod.controller and not wish)
        assert not pod.controller.startswith("DaemonSet")
        assert all(self.now_s - before_s >= PAUSE_S for before_s, _ in self.evicted)

    def happen(self) -> None:
        """What changes between two readings."""
        names = [entry.ref.name for entry in self.store.entries.values()]
        if not self.is_calm:
            for name in names:
                if name in self.busy and self.rng.random() < 0.3:
                    self.proc.end(self.busy.pop(name))
                elif name not in self.busy and self.rng.random() < 0.012:
                    self.busy[name] = pid = self.rng.randrange(1000, 10**6)
                    self.start(name, pid)
                if self.rng.random() < 0.005:
                    entry = self.store.entries[self.uids[name]]
                    wish = self.rng.choice(["keep", "evict", "nonsense"])
                    entry.annotations = dict(entry.annotations) | {WHEN_IDLE: wish}
            if self.rng.random() < 0.005:
                self.start_program()
            if self.rng.random() < 0.005:
                self.now_s += 4 * POLL_S
                self.blind_s = self.now_s
        self.source.fails = not self.is_calm and self.rng.random() < 0.005
        self.use({pid: 0.5 for name, pid in self.busy.items() if name in names})

    async def step(self) -> None:
        """One reading, and all that follows from it."""
        self.happen()
        await self.poll()
        if self.source.fails:
            self.blind_s = self.now_s
        self.used_s |= dict.fromkeys(self.busy, self.now_s)
        self.evictor.on_poll()
        writing = [asyncio.create_task(each.run()) for each in (self.evictor, self.notes_writer)]
        self.notes_writer.on_poll()
        for _ in range(20):
            await asyncio.sleep(0)
        for task in writing:
            task.cancel()
        for found in await asyncio.gather(*writing, return_exceptions=True):
            if not isinstance(found, asyncio.CancelledError):
                raise AssertionError("a task ended") from found


@pytest.mark.parametrize("seed", range(2))
async def test_only_pods_that_were_idle_and_had_their_notice_are_evicted_and_all_of_them_in_the_end(
    tmp_path: Path, seed: int
) -> None:
    world = World(tmp_path, random.Random(seed))
    for _ in range(POLLS):
        await world.step()
    world.is_calm = True
    for pid in world.busy.values():
        world.proc.end(pid)
    world.busy = {}
    for _ in range(int((2 * AFTER_S + 300 + PODS * PAUSE_S) // POLL_S) + 2):
        await world.step()
    left: dict[str, Any] = {
        entry.ref.name: (entry.ref.controller, entry.annotations.get(WHEN_IDLE, ""))
        for entry in world.store.entries.values()
    }
    assert all(
        wish in {"keep", "nonsense"} or controller.startswith("DaemonSet") or (not controller and not wish)
        for controller, wish in left.values()
    ), left
    assert world.evicted
