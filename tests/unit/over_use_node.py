"""One card of a node whose time a test moves: the real parts from the card's file to the Events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gcushare.cards.monitor import CardMonitor, MonitorSettings
from gcushare.cards.ports import CardReport, HealthEvent, HealthReading
from gcushare.cards.process_owners import ProcessOwners
from gcushare.core.cards import Card, CardUse, Inventory, InventoryCard
from gcushare.core.over_use.tracking import OverUseTracker
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.pods.allocations import Holdings, KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.over_use.idle_settings import IdleSettings
from gcushare.node.over_use.idle_watch import IdleWatch
from gcushare.node.over_use.watch import OverUseWatch
from gcushare.node.pod_use import PodMemoryMonitor
from gcushare.vendors import ENFLAME
from tests.builders import TOLERANCE
from tests.card_health import POLICY
from tests.extender_objects import a_pod, on_card
from tests.fake_proc import FakeProc
from tests.unit.node_agent_rig import Heard

NODE = "node-1"
POLL_S = 5.0
AFTER_S = 60.0
"""Without a process, until a pod is idle."""
CARD_GIB = 64


CARD = Card(index=0, uuid="GCU-0", memory_bytes=CARD_GIB * GIB)


class Source:
    """A source of one card whose processes a test sets; while it ``fails``, the card is not to be read."""

    name = "a test's card"

    def __init__(self) -> None:
        self.processes: dict[int, int] = {}
        self.utilization: float | None = None
        self.lists = True
        self.fails = False

    async def list_cards(self) -> CardReport:
        if self.fails:
            return CardReport(cards=(CARD,), problem="the library does not answer")
        use = CardUse(
            memory_used_bytes=sum(self.processes.values()),
            utilization_percent=self.utilization,
            processes=dict(self.processes) if self.lists else None,
        )
        return CardReport(cards=(CARD,), readings={CARD.uuid: HealthReading(healthy=True)}, uses={CARD.uuid: use})

    async def are_linked(self, card_a: Card, card_b: Card) -> bool:
        return False

    async def wait_event(self, timeout_s: float) -> HealthEvent | None:
        return None

    async def close(self) -> None:
        """Nothing is held."""


class OverUseNode:
    """Pods p0, p1 and so on hold 4 GiB each. Polls are ``POLL_S`` apart in a time that only ``poll`` moves."""

    def __init__(self, folder: Path, pods: int = 2) -> None:
        self.now_s = 0.0
        self.heard = Heard()
        self.source = Source()
        self.proc = FakeProc(folder / "proc")
        self.store = PodStore(ENFLAME)
        for number in range(pods):
            uid = f"00000000-0000-4000-8000-{number:012d}"
            self.store.pod_applied(a_pod(f"p{number}", 4, node=NODE, record=on_card(0, 4), uid=uid))
        held: Holdings = {f"default/p{number}": {"main": {0: 4}} for number in range(pods)}
        self.store.on_kubelet_read(KubeletAllocations(memory=held))
        self.uids = {entry.ref.name: uid for uid, entry in self.store.entries.items()}
        self.monitor = CardMonitor(
            self.source, lambda _cards: None, MonitorSettings(poll_interval_s=5.0, policy=POLICY)
        )
        self.pod_use = PodMemoryMonitor(self.monitor, self.store, ProcessOwners(self.proc.root))
        card = InventoryCard(**msgspec.structs.asdict(CARD), units=CARD_GIB)
        inventory = Inventory(unit=parse_memory_unit("1"), cards=(card,))
        self.tracker = OverUseTracker(TOLERANCE, polls=2)
        self.watch = OverUseWatch(
            self.tracker,
            self.pod_use,
            self.monitor,
            self.store,
            self.heard,
            inventory=lambda: inventory,
            wall_clock_s=lambda: self.now_s,
        )

    def start(self, name: str, *pids: int) -> None:
        """Start processes of a pod."""
        for pid in pids:
            self.proc.start_in_pod(pid, self.uids[name])

    def use(self, gib: dict[int, float]) -> None:
        """Let processes use so much of the card."""
        self.source.processes = {pid: int(size * GIB) for pid, size in gib.items()}

    async def poll(self, times: int = 1) -> None:
        """Let the next polls come, with everything that follows from them."""
        for _ in range(times):
            self.now_s = (self.now_s // POLL_S + 1) * POLL_S
            await self.monitor.poll()
            await self.pod_use.refresh()
            self.watch.on_poll()


class IdleNode(OverUseNode):
    """Pods p0 and p1 on one card; both are idle once ``AFTER_S`` of readings found nothing."""

    exempt: tuple[str, ...] = ("default/p1",)

    def __init__(self, folder: Path, pods: int = 2, **settings: Any) -> None:
        super().__init__(folder, pods=pods)
        self.settings = IdleSettings(**{"idle_after": AFTER_S, "idle_least_age": 0.0} | settings)
        self.idle = self.make_watch()

    def make_watch(self) -> IdleWatch:
        """The watch of a program that has just been started."""
        return IdleWatch(
            self.settings,
            self.pod_use,
            self.monitor,
            self.store,
            self.heard,
            exempt=self.exempt,
            is_rehearsing=False,
            longest_gap_s=3 * POLL_S,
            clock=lambda: self.now_s,
            wall_clock_s=lambda: self.now_s,
        )

    async def poll(self, times: int = 1) -> None:
        for _ in range(times):
            await super().poll()
            self.idle.on_poll()

    async def poll_for(self, seconds: float) -> None:
        await self.poll(int(seconds // POLL_S))

    @property
    def notes(self) -> dict[str, str]:
        """The annotations that are due, by pod."""
        names = {uid: name for name, uid in self.uids.items()}
        return {names[uid]: text for uid, text in self.idle.notes.items()}
