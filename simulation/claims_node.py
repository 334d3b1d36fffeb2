"""The real claims driver of one node, with its services, on a disk that outlives it; and how the kubelet calls it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import msgspec

from gcushare.cards.health import CardsSnapshot, HealthPolicy
from gcushare.cards.monitor import CardMonitor, MonitorSettings
from gcushare.cluster.watch_handlers import NodeHandler
from gcushare.core.errors import DeviceError, RemoteContractError
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.claims.claim_checks import ClaimChecks
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.claim_pods import ClaimPods
from gcushare.device_plugin.claims.node_agent import ClaimsAgent
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims, list_claims
from gcushare.device_plugin.claims.service import ClaimsService
from gcushare.device_plugin.claims.slice_plan import SlicePlan
from gcushare.device_plugin.claims.slice_publisher import SlicePublisher
from gcushare.device_plugin.node.held_cards import find_claimed_cards
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.plugin_settings import CardSettings
from gcushare.device_plugin.way import FACTS_TIMEOUT_S
from gcushare.kube.client import KubeClient
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import NODES, RESOURCE_SLICES, Selector
from gcushare.node.cdi import CdiSpecFile, CdiSpecPublisher
from gcushare.node.grant_form import GrantForm
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ALIYUN
from gcushare.wire.dra.checkpoint import CHECKPOINT, CHECKPOINT_VERSION, Checkpoint, PreparedClaim
from gcushare.wire.dra.slices import RESOURCE_SLICE
from gcushare.wire.objects import NODE, Node
from gcushare.wire.protos import services
from simulation.cards import SimulatedSource, make_machine
from simulation.claims_views import watch_views
from simulation.process import Process
from simulation.program import CONFIG, ProcessClock
from simulation.restarting import RestartingProgram
from simulation.world import World

NAMES = ALIYUN.claims
UNIT = parse_memory_unit("GiB")
_NOWHERE = Path("/nonexistent")
_MONITORED = MonitorSettings(poll_interval_s=5.0, policy=HealthPolicy(), by_uuid=True)
ContainersOn: TypeAlias = Callable[[str], dict[tuple[str, str], frozenset[str]]]
"""The claims of the containers of a node, by pod and container, as its kubelet shows them."""


class NodeDisk:
    """Checkpoint and CDI files. ``writes_to_live``: after so many writes the driver is killed; None for never."""

    def __init__(self, planted: str) -> None:
        self.planted = planted
        self.checkpoint: bytes | None = None
        self.files: dict[str, PreparedClaim] = {}
        self.writes_to_live: int | None = None
        self.process: Process | None = None

    def write(self, change: Callable[[], None]) -> None:
        """Write, unless the driver dies before it."""
        if self.writes_to_live == 0 and self.process is not None:
            self.process.steps_to_live = 1
            raise DeviceError("the driver dies here")
        change()
        if self.writes_to_live is not None:
            self.writes_to_live -= 1

    @property
    def claims(self) -> dict[str, PreparedClaim] | None:
        """What the checkpoint says; None if it cannot be read."""
        try:
            return CHECKPOINT.read(self.checkpoint).claims if self.checkpoint is not None else {}
        except RemoteContractError:
            return None


class _Checkpoint(CheckpointFile):
    def __init__(self, disk: NodeDisk) -> None:
        super().__init__(_NOWHERE)
        self._disk = disk

    def read(self) -> dict[str, PreparedClaim]:
        return CHECKPOINT.read(self._disk.checkpoint).claims if self._disk.checkpoint is not None else {}

    def write(self, claims: dict[str, PreparedClaim]) -> None:
        content = msgspec.json.encode(Checkpoint(version=CHECKPOINT_VERSION, claims=claims))
        if self._disk.planted != "forgets what it prepared" or len(claims) < 2:
            self._disk.write(lambda: setattr(self._disk, "checkpoint", content))

    def copy_aside(self) -> Path:
        return self.path.with_name("aside")


class _CdiFiles(ClaimCdiFiles):
    def __init__(self, disk: NodeDisk) -> None:
        super().__init__(_NOWHERE, NAMES.driver)
        self._disk = disk

    def write(self, claim: PreparedClaim) -> None:
        if self._disk.files.get(claim.uid) != claim:
            self._disk.write(lambda: self._disk.files.__setitem__(claim.uid, claim))

    def remove(self, uid: str) -> None:
        if uid in self._disk.files and self._disk.planted != "leaves files":
            self._disk.write(lambda: self._disk.files.__delitem__(uid))

    def remove_others(self, uids: Iterable[str]) -> int:
        kept = set(uids)
        stale = [uid for uid in self._disk.files if uid not in kept]
        for uid in stale:
            self.remove(uid)
        return len(stale)


class ClaimsNode(RestartingProgram):
    """A node: its cards, its disk, and the driver that starts again whenever it was killed."""

    def __init__(
        self, world: World, seed: int, number: int, sizes: tuple[int, ...], containers_on: ContainersOn
    ) -> None:
        super().__init__(world, f"node-{number}", random.Random(f"claims/{seed}/node-{number}"))
        self._containers_on = containers_on
        self.machine = make_machine(self.name, sizes)
        self._monitor: CardMonitor | None = None
        self.disk = NodeDisk(world.planted)
        self.publisher: SlicePublisher | None = None
        self.agent: ClaimsAgent | None = None
        self.checks: ClaimChecks | None = None
        self._service: ClaimsService | None = None

    def _reset(self) -> None:
        self._service = self.checks = None
        self.disk.process, self.disk.writes_to_live = self.process, None

    def sicken(self, first: int) -> None:
        """Have the cards from this slot on fall ill."""
        for card in list(self.machine.cards.values())[first:]:
            card.is_sick = True
        self.poll()

    def heal(self) -> None:
        """Have every card be well."""
        for card in self.machine.cards.values():
            card.is_sick = False
        self.poll()

    def list_cards(self, order: list[int]) -> None:
        """Have the driver list these cards, by slot, in this order."""
        self.machine.order = order
        self.poll()

    def list_all_cards(self) -> None:
        """Have the driver list those too that it left out."""
        order = self.machine.order
        self.list_cards([*order, *(slot for slot in self.machine.cards if slot not in order)])

    def poll(self) -> None:
        """Have the driver poll its cards now, if it runs."""
        if self.process.is_alive and self._monitor is not None and self._service is not None:
            self.world.loop.create_task(self._monitor.poll(), context=self.process.context)

    async def _run(self, process: Process) -> None:
        loop = self.world.loop
        client = KubeClient(CONFIG, program="claims", transport=self._transport(process))
        clock, rng = ProcessClock(loop, process), random.Random(self.rng.getrandbits(64))
        prepared = PreparedClaims(
            GrantForm(ALIYUN, (Strategy.ENV,)), self.name, _Checkpoint(self.disk), _CdiFiles(self.disk)
        )
        self.publisher = SlicePublisher(client, NAMES.driver, self.name, rng)
        watch_views(self.world, self.name, self.publisher._slices)
        cdi = CdiSpecPublisher(CdiSpecFile(_NOWHERE, ALIYUN), is_wanted=False)
        plan = SlicePlan(ALIYUN, self.name)
        writer = CardsPublisher(ALIYUN, self.name, client, rng=rng, pods_per_count=0)
        cards = CardSettings(vendor=ALIYUN, memory_unit=UNIT.name)

        source = SimulatedSource(self.machine)

        def cards_changed(found: CardsSnapshot) -> None:
            agent.on_cards(found)

        monitor = self._monitor = CardMonitor(source, cards_changed, _MONITORED, clock=loop.time)
        agent = self.agent = ClaimsAgent(cards, plan, prepared, self.publisher, cdi, writer, monitor.hold)
        if self.disk.planted == "counts no pod":
            prepared.assignments = lambda inventory: []  # type: ignore[method-assign]
        slices = Selector(fields=f"spec.nodeName={self.name},spec.driver={NAMES.driver}")
        node = Selector(fields=f"metadata.name={self.name}")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.publisher.run())
            tasks.create_task(writer.run())
            follow = partial(Reflector, client, clock=clock, rng=rng)
            seen = follow(NODES, NodeHandler([agent]), decode=NODE.read, selector=node)
            tasks.create_task(seen.run())
            watch = follow(RESOURCE_SLICES, self.publisher, decode=RESOURCE_SLICE.read, selector=slices)
            tasks.create_task(watch.run())
            await self._load(prepared, client)
            await self._read_cards(monitor, prepared, writer, seen)
            agent.on_cards(monitor.snapshot)
            tasks.create_task(monitor.run())
            self.checks = ClaimChecks(
                prepared,
                ClaimPods(prepared, UNIT, self.name),
                client,
                claims_of_containers=self._claims_of_containers,
                running=_unknown,
                announce=lambda _reason, words: self.world.note(f"{self.name}: {words}"),
                clock=loop.time,
            )
            if self.disk.planted != "keeps orphans":
                tasks.create_task(self.checks.run())
            self._service = ClaimsService(
                prepared,
                client,
                inventory=agent.inventory_to_grant,
                claims_of_containers=self._claims_of_containers,
                pool=self.name,
                clock=loop.time,
                observe=lambda call, seconds, error: self.world.counts.update([f"{call} {error or 'ok'}"]),
            )

    async def _read_cards(
        self, monitor: CardMonitor, prepared: PreparedClaims, writer: CardsPublisher, seen: Reflector[Node]
    ) -> None:
        """Learn which numbers are held, then list the cards, as the driver's program does."""
        await prepared.wait_for_numbers(seen.synced, FACTS_TIMEOUT_S, lambda: None)
        monitor.hold(find_claimed_cards(prepared.given(), writer.former))
        await monitor.poll()

    async def _claims_of_containers(self) -> dict[tuple[str, str], frozenset[str]]:
        """What podresources shows: the kubelet lists a pod's claims before it has them prepared."""
        return self._containers_on(self.name)

    async def _load(self, prepared: PreparedClaims, client: KubeClient) -> None:
        while True:
            try:
                prepared.load()
            except RemoteContractError:
                try:
                    prepared.rebuild(await list_claims(client, NAMES.driver, self.name))
                except Exception as error:
                    self.world.note(f"{self.name}: not rebuilt: {error}")
                    await asyncio.sleep(2.0)
                    continue
            return

    def call(self, method: str, request: bytes, then: Callable[[bytes], None]) -> asyncio.Task[None] | None:
        """Have the driver answer; None if it does not serve. Cancel the task to hang up, as gRPC does."""
        if self._service is None or not self.process.is_alive:
            return None
        details: Any = SimpleNamespace(method=f"/{services.DRA_SERVICE}/{method}")
        found: Any = self._service.handler().service(details)
        loop = self.world.loop

        async def answer() -> None:
            body = await found.unary_unary(request, None)
            loop.call_world(self.rng.uniform(0.001, 0.2), then, body)

        return loop.create_task(answer(), context=self.process.context)


async def _unknown() -> None:
    """The processes of the machine are not to be seen."""
