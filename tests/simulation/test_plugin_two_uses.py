"""Two resources, one set of cards, a kubelet whose lists lag behind: no card is ever in both uses.

The kubelet here is the worst that the protocol allows: it may use any list that it was sent since it started, ignores
preferences now and then, and shows allocations late or, for a while, not at all. The plugin may be killed at any time.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import GcushareError
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.wire.kubelet.device_ids import decode_device_id, decode_whole_card_id
from gcushare.wire.kubelet.plugin_messages import PreferredRequest, device_ids
from gcushare.wire.objects import Pod
from tests.unit.node_agent_rig import Rig, allocations, make_rig
from tests.unit.plugin_pods import MEMORY, WHOLE, bound, ended, recorded

CARDS = 4
UNITS = 8
STEPS = 400


def card_of(device_id: str) -> int:
    return decode_whole_card_id(device_id) if device_id.startswith("card-") else decode_device_id(device_id)[0]


@dataclass
class World:
    """One node; ``lists`` holds every list of a resource that the kubelet was sent since its start."""

    seed: int
    rng: random.Random = field(init=False)
    plugin: Rig = field(init=False)
    held: dict[str, frozenset[str]] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    lists: dict[str, list[frozenset[str]]] = field(default_factory=lambda: {MEMORY: [], WHOLE: []})
    forced: set[str] = field(default_factory=set)
    """Pods that were deleted by force and run on."""
    were_forced: int = 0
    now_s: float = 0.0
    refused: int = 0
    admitted: dict[str, int] = field(default_factory=lambda: {MEMORY: 0, WHOLE: 0})

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.start_plugin()

    def start_plugin(self) -> None:
        self.plugin = make_rig(mode=GrantMode.BOTH)
        for pod in self.pods.values():
            self.plugin.agent.pod_applied(pod)
        self.show_record()
        self.plugin.see(*[UNITS] * CARDS)
        self.listen()

    def listen(self) -> None:
        for resource, offered in self.lists.items():
            offered.append(frozenset(self.plugin.healthy(whole=resource == WHOLE)))

    def show_record(self) -> None:
        """Let the plugin read the kubelet's allocations, as checkpoints tell it: by uid."""
        record = allocations({uid: sorted(ids) for uid, ids in self.held.items()}, "checkpoint")
        self.now_s += 3_600.0
        self.plugin.parts.store.end_gone(record.pods, self.now_s)
        self.plugin.read(record)

    async def admit(self, number: int) -> None:
        """Have the kubelet admit a new pod by a list that may be old, following the preference or not."""
        resource = self.rng.choice([MEMORY, WHOLE])
        size = self.rng.choice([1, 2, 4]) if resource == MEMORY else self.rng.choice([1, 1, 2])
        pod = self._bind(f"p{number}", resource, size)
        granting = self.plugin.parts.allocator if resource == MEMORY else self.plugin.parts.whole_allocator
        taken = frozenset[str]().union(*self.held.values())
        available = sorted(self.rng.choice(self.lists[resource][-3:]) - taken)
        if len(available) < size:
            return self._end(pod.metadata.uid)
        try:
            request = PreferredRequest(device_ids(available), device_ids(()), size)
            ids = [entry[2:].decode() for entry in await granting.prefer(request)]
            if self.rng.random() < 0.3:
                ids = self.rng.sample(available, size)
            await granting.allocate(device_ids(ids))
        except GcushareError:
            self.refused += 1
            return self._end(pod.metadata.uid)
        self.held[pod.metadata.uid] = frozenset(ids)
        self.admitted[resource] += 1
        return None

    def _bind(self, name: str, resource: str, size: int) -> Pod:
        """Bind a pod, sometimes with the record of a card that has long gone to others."""
        annotations = {}
        if self.rng.random() < 0.7:
            cards = self.rng.sample(range(CARDS), size if resource == WHOLE else 1)
            annotations = recorded(",".join(map(str, cards)))
        pod = bound(name, {resource: size}, annotations=annotations)
        self.pods[pod.metadata.uid] = pod
        if self.rng.random() < 0.9:
            self.plugin.agent.pod_applied(pod)
        return pod

    def _end(self, uid: str) -> None:
        """End a pod; the watch says so, the kubelet's allocations only when it is read the next time."""
        self.held.pop(uid, None)
        self.forced.discard(uid)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.plugin.agent.pod_deleted(ended(pod))

    def force_some_pod(self) -> None:
        """Delete a pod by force: its object is gone at once, and its containers run on."""
        uids = sorted(self.held.keys() & self.pods.keys())
        if uids:
            uid = self.rng.choice(uids)
            self.forced.add(uid)
            self.were_forced += 1
            self.plugin.agent.pod_deleted(self.pods.pop(uid))

    def end_some_pod(self) -> None:
        if self.held:
            self._end(self.rng.choice(sorted(self.held)))

    def uses(self) -> dict[int, set[str]]:
        """In which ways each card is really in use."""
        found: dict[int, set[str]] = {}
        for ids in self.held.values():
            for each in ids:
                found.setdefault(card_of(each), set()).add(WHOLE if each.startswith("card-") else MEMORY)
        return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
async def test_no_card_is_in_both_uses_whatever_the_kubelet_believes(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "gcushare")
    world = World(seed)
    for step in range(STEPS):
        match world.rng.choices(("admit", "end", "force", "record", "listen", "restart"), (8, 6, 1, 6, 4, 0.2))[0]:
            case "admit":
                await world.admit(step)
            case "end":
                world.end_some_pod()
            case "force":
                world.force_some_pod()
            case "record":
                world.show_record()
            case "listen":
                world.listen()
            case "restart":
                world.start_plugin()
        both = {card: uses for card, uses in world.uses().items() if len(uses) > 1}
        assert not both, f"{seed=} {step=}: {both}"
    assert min(world.admitted.values()) > STEPS // 40, f"{seed=}: {world.admitted}"
    assert min(world.refused, world.were_forced) > 0, f"{seed=}"
    for uid in list(world.held):
        world._end(uid)
    world.show_record()
    world.show_record()
    world.plugin.parts.store.end_pending(1.0, is_readable=True)
    world.plugin.agent.on_allocate()
    assert (len(world.plugin.healthy()), len(world.plugin.healthy(whole=True))) == (CARDS * UNITS, CARDS)
