"""A day of one node in virtual time: pods come and go in bad order, everything around the plugin fails now and then."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from gcushare.core.cards import Card, Inventory, InventoryCard
from gcushare.core.errors import ConflictError, RetryableError
from gcushare.core.nodes import PodRef
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.allocation.allocator import PodChanges
from gcushare.device_plugin.allocation.memory import MemoryAllocator
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.choices import Strategy
from gcushare.device_plugin.pods.reconciler import AllocationReconciler
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations.record import PodRecord, decode_record, encode_record
from gcushare.wire.objects import Pod
from tests.simulation.kubelet_model import ContainerModel, KubeletDied, KubeletModel, PodModel

DAY_S = 86_400.0
CARDS = dict.fromkeys(range(4), 16)
SETTLING_S = (0.01, 0.02, 0.5, 2.0, 60.0)
"""Looks after the last admission: podresources shows it in 25 ms, an allocation that nobody shows ends in 2 s, and the
record is read every minute in any case."""
_decoder = msgspec.json.Decoder(Pod)


@dataclass
class ApiModel:
    """The pods of one node as the API server has them; a ``PodPatcher``. ``is_away``: no write succeeds."""

    pods: dict[str, PodModel] = field(default_factory=dict)
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)
    is_away: bool = False
    changed: set[str] = field(default_factory=set)
    """Pods whose change the watch has not brought to the plugin yet."""

    async def patch_record(self, pod: PodRef, annotations: Mapping[str, str | None]) -> None:
        if self.is_away:
            raise RetryableError("the API server is away")
        if pod.uid not in self.pods:
            raise ConflictError(f"{pod} is another pod now")
        self.annotations[pod.uid] |= {key: value for key, value in annotations.items() if value is not None}
        self.changed.add(pod.uid)

    def document(self, uid: str) -> Pod:
        pod = self.pods[uid]
        groups: dict[bool, list[object]] = {True: [], False: []}
        for container in pod.containers:
            limits = {ENFLAME.memory_resource: str(container.units)}
            groups[container.is_init].append({"name": container.name, "resources": {"limits": limits}})
        metadata = {"name": pod.name, "namespace": "d", "uid": uid, "annotations": self.annotations[uid]}
        spec = {"nodeName": "n", "containers": groups[False], "initContainers": groups[True]}
        document = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
        return _decoder.decode(msgspec.json.encode(document))

    def record(self, uid: str) -> PodRecord | None:
        return decode_record(ENFLAME, self.annotations[uid])


class PluginModel:
    """The plugin's own parts, as one process has them; a restart makes new ones."""

    def __init__(self, kubelet: KubeletModel, api: ApiModel) -> None:
        self.store = PodStore(ENFLAME)
        self.reconciler = AllocationReconciler(
            self.store,
            kubelet,
            api,
            clock=lambda: kubelet.now_s,
            wall_clock_ns=lambda: int(kubelet.now_s * 1e9),
        )
        self.allocator = MemoryAllocator(
            self.store,
            AllocateResponses(ENFLAME, (Strategy.ENV,)),
            PodChanges(),
            wait_for_pod_s=0.0,
            clock=lambda: kubelet.now_s,
        )
        self.allocator.on_allocated = self.reconciler.note_allocation
        inventory = Inventory(
            unit=parse_memory_unit("1"),
            cards=tuple(
                InventoryCard(card=Card(index=index, uuid=f"u{index}", memory_bytes=units << 30), units=units)
                for index, units in CARDS.items()
            ),
        )
        self.reconciler.writer.set_inventory(inventory)
        self.allocator.set_inventory(inventory)


@dataclass(frozen=True)
class Weather:
    """How often things go wrong, as probabilities per tick or per pod."""

    faults: float = 0.05
    restarts: float = 0.02
    deaths: float = 0.02
    ignored: float = 0.02
    unseen: float = 0.05
    unrecorded: float = 0.1
    init: float = 0.1
    several_containers: float = 0.3


STORM = Weather()
CALM = Weather(faults=0, restarts=0, deaths=0, ignored=0, unseen=0, unrecorded=0, init=0, several_containers=0)


@dataclass
class Counts:
    """What a day had, so that a test can show that the day was a hard one."""

    admitted: int = 0
    refused: int = 0
    restarts: int = 0
    deaths: int = 0
    unseen: int = 0
    ignored: int = 0


class Day:
    """One node with everything that is modelled around its plugin."""

    def __init__(self, seed: int, weather: Weather) -> None:
        self.rng = random.Random(seed)
        self._weather = weather
        self.kubelet = KubeletModel(dict(CARDS), self.rng)
        self.api = ApiModel()
        self.plugin = PluginModel(self.kubelet, self.api)
        self.ends_at_s: dict[str, float] = {}
        self.counts = Counts()
        self._numbers = itertools.count(1)

    async def live(self) -> None:
        while self.kubelet.now_s < DAY_S:
            self.kubelet.now_s += self.rng.expovariate(1 / 120)
            self._change_faults()
            for uid in [uid for uid, at_s in self.ends_at_s.items() if at_s <= self.kubelet.now_s]:
                self._end(uid)
            if self._happens(self._weather.restarts):
                await self.restart_plugin()
            await self._admit_batch()
            await self.settle()
            self.check()

    async def restart_plugin(self) -> None:
        self.counts.restarts += 1
        self.plugin = PluginModel(self.kubelet, self.api)
        for uid in self.api.pods:
            self.plugin.store.apply(self.api.document(uid))
        await self.plugin.reconciler.check()

    def _change_faults(self) -> None:
        if self._happens(self._weather.faults):
            self.kubelet.source = self.rng.choice(["podresources"] * 3 + ["checkpoint", "nothing"])
        if self._happens(self._weather.faults):
            self.api.is_away = self.rng.random() < 0.3

    async def _admit_batch(self) -> None:
        batch = [pod for pod in (self._bind() for _ in range(self.rng.choice([0, 1, 1, 2, 4, 12]))) if pod is not None]
        self.rng.shuffle(batch)
        for pod in batch:
            self.kubelet.ignores_preference = self._happens(self._weather.ignored)
            self.kubelet.dies = self._happens(self._weather.deaths)
            self.counts.ignored += self.kubelet.ignores_preference
            await self._admit(pod)
            self.kubelet.now_s += self.rng.choice([0.001, 0.005, 0.03])
            if self.rng.random() < 0.5:
                await self.plugin.reconciler.check()

    async def _admit(self, pod: PodModel) -> None:
        is_unseen = self._happens(self._weather.unseen)
        self.counts.unseen += is_unseen
        if is_unseen:
            self.plugin.store.forget(pod.uid)
        try:
            refusal = await self.kubelet.admit(pod, self.plugin.allocator)
        except KubeletDied:
            self.counts.deaths += 1
            refusal = await self.kubelet.admit(pod, self.plugin.allocator)
        if refusal:
            self.counts.refused += 1
            self._end(pod.uid)
            return
        self.counts.admitted += 1
        self.plugin.store.apply(self.api.document(pod.uid))
        self.ends_at_s[pod.uid] = self.kubelet.now_s + self.rng.choice([0.01, 60, 1_800, 1_800, 7_200])

    def _happens(self, probability: float) -> bool:
        return self.rng.random() < probability

    def _bind(self) -> PodModel | None:
        """Bind a pod where the records leave room, as the extender does; one in ten without asking it."""
        number = next(self._numbers)
        is_large = self._happens(self._weather.several_containers)
        sizes = self.rng.choice([(2, 3), (1, 1, 2)] if is_large else [(1,), (2,), (4,), (4,), (8,)])
        containers = [ContainerModel(f"c{n}", units) for n, units in enumerate(sizes)]
        if self._happens(self._weather.init):
            containers.insert(0, ContainerModel("init", self.rng.choice([1, 4]), is_init=True))
        pod = PodModel(f"uid-{number}", f"p{number % 50}", tuple(containers))
        if any(other.name == pod.name for other in self.api.pods.values()):
            return None
        units = max(sum(sizes), *(c.units for c in containers))
        room = {card: CARDS[card] - used for card, used in self._used().items() if CARDS[card] - used >= units}
        if not room:
            return None
        self.api.pods[pod.uid], self.api.annotations[pod.uid] = pod, {}
        if not self._happens(self._weather.unrecorded):
            card = min(room, key=lambda index: (room[index], index))
            record = PodRecord(
                card_indexes=(card,), card_units=CARDS[card], pod_units=units, assign_time_ns=number, assigned=False
            )
            self.api.annotations[pod.uid] = dict(encode_record(ENFLAME, record))
        self.plugin.store.apply(self.api.document(pod.uid))
        return pod

    def _used(self) -> dict[int, int]:
        """Units per card as the extender counts them: by the records alone."""
        used = dict.fromkeys(CARDS, 0)
        for uid in self.api.pods:
            record = self.api.record(uid)
            if record is not None:
                used[record.card_indexes[0]] += record.pod_units
        return used

    def _end(self, uid: str) -> None:
        self.kubelet.end(uid)
        self.ends_at_s.pop(uid, None)
        self.plugin.store.forget(uid, is_over=True)
        del self.api.pods[uid], self.api.annotations[uid]

    async def settle(self) -> None:
        """Let the kubelet's record show everything and the records follow, as far as the faults of now let them."""
        for delay_s in SETTLING_S:
            self.kubelet.now_s += delay_s
            await self.plugin.reconciler.check()
            async with asyncio.TaskGroup() as writers:
                self.plugin.reconciler.writer.start_due(writers)
            for uid in sorted(self.api.changed & self.api.pods.keys()):
                self.plugin.store.apply(self.api.document(uid))
                self.plugin.reconciler.writer.note_pod(uid)
            self.api.changed.clear()

    def check(self) -> None:
        """What must hold whenever things have settled."""
        assert self.plugin.store.pending_allocations == 0
        if self.kubelet.source == "nothing":
            return
        held, truth = self.plugin.store.held_units(), self.kubelet.units_by_card()
        if all(len(self.kubelet.truth(uid)) == 1 for uid in self.api.pods):
            assert held == truth
        # Of a pod that a preference ignored has put on two cards, ids of its init containers count twice.
        assert all(held[card] >= units for card, units in truth.items())
        if self.api.is_away:
            return
        for uid in self.api.pods:
            record = self.api.record(uid)
            assert record is not None, f"{uid} was never recorded"
            assert record.card_indexes == self.kubelet.truth(uid), f"{uid} is recorded wrongly"
            assert record.assigned, f"{uid} was never marked assigned"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
async def test_a_day_of_pods_and_failures_loses_no_unit_and_leaves_true_records(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "gcushare")  # a day has thousands of lines
    print(f"{seed=}")  # noqa: T201 - shown when the test fails
    day = Day(seed, STORM)
    await day.live()
    counts = day.counts
    assert min(counts.admitted // 100, counts.restarts, counts.deaths, counts.unseen, counts.ignored) > 0, counts
    for uid in list(day.api.pods):
        day._end(uid)
    await day.settle()
    assert day.kubelet.free() == day.kubelet.all_ids
    assert (day.plugin.store.held_units(), day.plugin.store.promised()) == ({}, {})


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
async def test_on_a_calm_day_a_planned_pod_is_hardly_ever_refused_in_whatever_order_pods_come(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls name no pod: on a full node, pods of several sizes in one batch can still end in each other's way."""
    caplog.set_level(logging.ERROR, "gcushare")  # a day has thousands of lines
    print(f"{seed=}")  # noqa: T201 - shown when the test fails
    day = Day(seed, CALM)
    await day.live()
    assert day.counts.admitted > 100
    assert day.counts.refused * 100 <= day.counts.admitted
