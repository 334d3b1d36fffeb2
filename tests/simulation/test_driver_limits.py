"""Random pods, containers, restarts, crashes and drivers: nothing runs without its limit, and no limit is too high.

The keeper, the binding and the fake library are the real ones; the kubelet's order of steps is played here.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from simulation.control_groups import ControlGroups, Keeping, read_set_calls

from gcushare.cards.health import CardsSnapshot
from gcushare.cards.ports import GroupMemory, LimitSource
from gcushare.core.assignments import PodRef
from gcushare.core.cards import Card, CardUse, Inventory, InventoryCard
from gcushare.core.errors import DeviceError
from gcushare.core.over_use.eviction import BURST_MARGIN_BYTES
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.node.driver_limits.driver_limiter import DriverLimiter
from gcushare.node.driver_limits.pod_amounts import LEAST_BYTES
from gcushare.node.driver_limits.pods import DriverLimits
from gcushare.node.node_settings import Fallback
from gcushare.node.pods import NO_SIZES, CardCounts, NodePods, PlainPod, SharedGrant
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.native.libraries import DirectSource, nvml_here
from tests.unit.node_agent_rig import Heard

CARD_GIB, CARDS, STEPS = 16, 2, 60
MIB = 1 << 20
GOOD = ("set keeping * {}", f"set memory * {CARD_GIB * GIB}", "absent nvmlDeviceGetPciInfo_v3 * 3")


class Crashed(BaseException):
    """The program was killed in the middle of a call."""


class MortalSource(DirectSource):
    """After ``calls_left`` calls about groups the program is killed."""

    calls_left: int | None = None

    def _count(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Crashed

    async def group_memory(self, card: Card, group: str) -> GroupMemory | None:
        self._count()
        return await super().group_memory(card, group)

    async def limit_group(self, card: Card, group: str, hard_bytes: int | None) -> GroupMemory | None:
        self._count()
        return await super().limit_group(card, group, hard_bytes)


@dataclass
class Pod(PlainPod):
    """A pod with memory of cards, and what runs of it; ``claim`` is 0 if it has none."""

    containers: list[dict[int, int]] = field(default_factory=list)
    claim: int = 0
    path: Path = Path()
    running: dict[int, Path] = field(default_factory=dict)

    @property
    def group_uid(self) -> str:
        return self.annotations.get(MACHINE_UID, self.ref.uid)

    def most(self, index: int) -> int:
        return max(self.units[index], self.limit) * GIB


class Node(NodePods):
    """The machine, its kubelet, and the program under test, which is started again and again."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng = rng
        self.keeping: Keeping = rng.choice(["dmem", "misc"])
        self.groups = ControlGroups(folder, self.keeping)
        self.is_systemd = rng.random() < 0.5
        self.prefix = rng.choice(["", "outer/", "system.slice/docker-77.scope/kubelet/"])
        self.groups.make(self.prefix + ("kubepods.slice" if self.is_systemd else "kubepods"))
        self.fake, self.library = nvml_here()
        self.fake.path.with_name(self.fake.path.name + ".log").unlink(missing_ok=True)
        self.set_good(True)
        self.here: dict[str, Pod] = {}
        self.made = 0
        self.has_forgotten = False
        cards = [
            InventoryCard(index=index, uuid=f"GPU-{index:08d}", memory_bytes=CARD_GIB * GIB, units=CARD_GIB)
            for index in range(CARDS)
        ]
        self.inventory = Inventory(unit=parse_memory_unit("1"), cards=tuple(cards))
        self.start_program()

    # The pods as the program sees them

    @property
    def entries(self) -> Mapping[str, Pod]:
        return self.here

    everyone = entries

    def shared(self) -> list[SharedGrant]:
        return [([each.ref.uid for each in pods], pods[0].units) for pods in self.sharers() if len(pods) > 1]

    def sharers(self) -> list[list[Pod]]:
        """The pods by claim; each that has none, which may burst, by itself."""
        claims = sorted({pod.claim for pod in self.here.values()} - {0})
        shared = [[pod for pod in self.here.values() if pod.claim == claim] for claim in claims]
        return shared + [[pod] for pod in self.here.values() if not pod.claim]

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        return {index: sum(pods[0].units.get(index, 0) for pods in self.sharers()) for index in range(CARDS)}

    @property
    def snapshot(self) -> CardsSnapshot:
        uses = {index: CardUse(memory_used_bytes=self.in_use(index)) for index in range(CARDS)}
        return CardsSnapshot(cards=self.inventory.cards, uses=uses)

    async def wait_poll(self, after: int = 0) -> int:
        return after + 1

    # What happens

    def start_program(self) -> None:
        self.source = MortalSource(self.library)
        self.keeper = DriverLimits(
            DriverLimiter(Fallback.REFUSE, cast(LimitSource, self.source)),  # all that they ask of it
            self.groups.root,
            self,
            self,
            Heard(),
            lambda: None,
            inventory=lambda: self.inventory,
        )

    def set_good(self, is_good: bool) -> None:
        rules = [rule.format(self.keeping) for rule in GOOD]
        self.fake.control(*rules, *(() if is_good else ("set not_root * 1",)))
        self.is_good = is_good

    def in_use(self, index: int) -> int:
        return self.groups.used(self.groups.root, index)

    def group_of(self, pod: Pod) -> str:
        uid, quality = pod.group_uid, self.rng.choice(["", "burstable", "besteffort"])
        if self.is_systemd:
            middle = f"kubepods-{quality}" if quality else "kubepods"
            folder = f"kubepods.slice/{middle}.slice/" if quality else "kubepods.slice/"
            return f"{self.prefix}{folder}{middle}-pod{uid.replace('-', '_')}.slice"
        return f"{self.prefix}kubepods/{quality}{'/' if quality else ''}pod{uid}"

    def admit(self) -> None:
        """Have the scheduler place a pod by the ledger, and the kubelet make its group."""
        self.made += 1
        held = self.held_units()
        wanted = self.rng.choice([1, 2, 4, 8])
        cards = [index for index in range(CARDS) if held[index] + wanted <= CARD_GIB]
        claims = [pod for pod in self.here.values() if pod.claim]
        joined = self.rng.choice(claims) if claims and self.rng.random() < 0.4 else None
        is_claim = joined is not None or self.rng.random() < 0.5
        if not cards and joined is None:
            return
        chosen = list(joined.units) if joined else self.rng.sample(cards, self.rng.randint(1, len(cards)))
        wanted = joined.units[chosen[0]] if joined else wanted
        count = self.rng.randint(1, min(3, wanted))
        shares = [wanted // count + (wanted % count if each == 0 else 0) for each in range(count)]
        uid = f"{self.made:08x}-1111-4222-8333-444444444444"
        pod = Pod(
            PodRef(uid, "default", f"pod-{self.made}"),
            units=dict.fromkeys(chosen, wanted),
            containers=[dict.fromkeys(chosen, size) for size in shares],
            limit=0 if is_claim else self.rng.choice([0, 0, 12, 16]),
            claim=0 if not is_claim else joined.claim if joined else self.made,
            annotations={MIRROR: "x", MACHINE_UID: f"{self.made:032x}"} if self.rng.random() < 0.2 else {},
        )
        self.here[uid] = pod
        pod.path = self.groups.make(self.group_of(pod))

    async def start_container(self, pod: Pod, number: int) -> None:
        """Start one as the kubelet does: it asks before, and creates nothing if that fails."""
        try:
            await self.keeper.ensure(pod.ref.uid, {index: size * GIB for index, size in pod.containers[number].items()})
        except DeviceError:
            assert not self.is_good, "a limit that can be set was refused"
            return
        self.made += 1
        if number in pod.running:
            self.groups.remove(pod.running[number])
        group = self.groups.make(f"{pod.path.relative_to(self.groups.root)}/container-{self.made}")
        if self.keeping == "dmem" and self.is_good and self.rng.random() < 0.3:
            # The container toolkit sets it by a variable of the container.
            index = self.rng.choice(list(pod.units))
            self.library.limit_group(index, str(group), self.rng.choice([GIB, 20 * GIB]))
        pod.running[number] = group
        if self.is_good:
            self.check_bursts()

    def allocate(self, pod: Pod) -> None:
        """Have a process allocate some memory of a card; only the driver refuses."""
        if pod.running:
            group, index = self.rng.choice(list(pod.running.values())), self.rng.choice(list(pod.units))
            size = self.rng.choice([64 * MIB, GIB, 3 * GIB, 9 * GIB])
            if self.in_use(index) + size <= CARD_GIB * GIB:
                self.groups.allocate(group, index, size)

    def free(self, pod: Pod) -> None:
        if pod.running:
            self.groups.free(self.rng.choice(list(pod.running.values())), self.rng.choice(list(pod.units)))

    def delete(self, pod: Pod) -> None:
        del self.here[pod.ref.uid]
        self.groups.remove(pod.path)

    async def step(self) -> None:
        pods = list(self.here.values())
        pod = self.rng.choice(pods) if pods else None
        action = self.rng.choice(["admit", "start", "start", "allocate", "allocate", "free", "delete", "poll", "crash",
                                  "reload", "resize", "break"])  # fmt: skip
        if action == "admit" or pod is None:
            self.admit()
        elif action == "start":
            number = self.rng.randrange(len(pod.containers))
            if self.rng.random() < 0.2:
                self.source.calls_left = self.rng.randrange(6)
            try:
                await self.start_container(pod, number)
            except Crashed:
                self.start_program()  # the kubelet calls again later
            self.source.calls_left = None
        elif action == "allocate":
            self.allocate(pod)
        elif action == "free":
            self.free(pod)
        elif action == "delete":
            self.delete(pod)
        elif action == "poll":
            await self.keeper.poll()
        elif action == "crash":
            self.source.calls_left = self.rng.randrange(20)
            with contextlib.suppress(Crashed):
                await self.keeper.poll()
            self.start_program()
        elif action == "reload":
            self.groups.reload_driver()
            # Without the controller the driver counts only what is allocated after that.
            self.has_forgotten = self.keeping == "misc"
            self.set_good(True)
            await self.keeper.poll()
            self.check_after_poll()
        elif action == "resize":
            pod.limit = 0 if pod.claim else self.rng.choice([0, 6, 12, 16])
            await self.keeper.poll()
        elif action == "break":
            self.set_good(not self.is_good)

    # What must hold

    def check(self) -> None:
        """Nothing runs without a limit of its pod, no pod has more than a limit that counted, nor another card."""
        for pod in self.here.values():
            if not pod.running:
                continue
            for index in set(range(CARDS)) - pod.units.keys():
                assert self.groups.limit_of(pod.path, index) == LEAST_BYTES, f"{pod.ref} reaches card {index}"
            for index in pod.units:
                hard = self.groups.limit_of(pod.path, index)
                assert hard is not None, f"{pod.ref} runs without a limit of card {index}"
                if not self.has_forgotten:
                    assert self.groups.used(pod.path, index) <= hard
                assert hard <= max(16 * GIB, pod.most(index))
                if self.keeping == "misc":
                    own = [self.groups.limit_of(child, index) for child in pod.running.values()]
                    assert own == [None] * len(own), "a limit of its own would count in place of the pod's"

    def check_after_poll(self) -> None:
        """Every limit is what the ledger counts, or what was in use already; bursts leave the grants alone."""
        if not self.is_good:
            return
        for index in range(CARDS):
            pods = [pod for pod in self.here.values() if index in pod.units and pod.running]
            for pod in pods:
                hard, used = self.groups.limit_of(pod.path, index), self.groups.used(pod.path, index)
                assert hard is not None
                assert hard <= max(pod.most(index), used)
                assert pod.units[index] * GIB <= hard or any(len(pods) > 1 for pods in self.sharers() if pod in pods)
        self.check_bursts()

    def check_claims(self) -> None:
        """Limits of pods that share a claim are together no more than the claim."""
        for pods in self.sharers():
            for index, units in pods[0].units.items() if len(pods) > 1 else ():
                limits = [self.groups.limit_of(pod.path, index) or 0 for pod in pods if pod.running]
                assert sum(limits) <= units * GIB + LEAST_BYTES * len(limits), "the sharers have more than their claim"

    def check_bursts(self) -> None:
        """Limits of pods that burst leave to the others what they were granted, if there was as much before."""
        for index in range(CARDS):
            holders = [pods for pods in self.sharers() if index in pods[0].units]
            used = [sum(self.groups.used(pod.path, index) for pod in pods) for pods in holders]
            granted = [pods[0].units[index] * GIB for pods in holders]
            if sum(map(max, granted, used)) + BURST_MARGIN_BYTES > CARD_GIB * GIB:
                continue
            bursting = [pods[0] for pods in holders if pods[0].limit and pods[0].running]
            limits = [self.groups.limit_of(pod.path, index) or 0 for pod in bursting]
            kept = sum(size for pods, size in zip(holders, granted, strict=True) if pods[0] not in bursting)
            assert sum(limits) + kept <= CARD_GIB * GIB, "a burst can grow into a neighbour's grant"


async def play(seed: int, folder: Path) -> Node:
    node = Node(random.Random(seed), folder)
    await node.keeper.poll()
    for _ in range(STEPS):
        await node.step()
        node.check()
        node.check_claims()
    await node.keeper.poll()
    node.set_good(True)
    await node.keeper.poll()
    await node.keeper.poll()
    node.check()
    node.check_after_poll()
    return node


@pytest.mark.parametrize("seed", [0, 21, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_nothing_runs_without_its_limit_and_nothing_is_left(tmp_path: Path, seed: int) -> None:
    node = asyncio.run(play(seed, tmp_path / "cgroup"))
    for pod in list(node.here.values()):
        node.delete(pod)
    asyncio.run(node.keeper.poll())
    for index in range(CARDS):
        left = [each for each in node.groups.root.rglob("*") if each.is_dir() and node.groups.limit_of(each, index)]
        assert left == []
        assert node.groups.soft_sum(index) == 0
    assert all(call.soft == 0 for call in read_set_calls(node.fake.path))
    assert node.keeper.used == {}
