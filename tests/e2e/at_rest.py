"""What pods hold once they are at rest, from three sides, and what of it breaks a rule."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from gcushare.core.requests import ContainerKind
from gcushare.node.pod_resources import list_pod_resources
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import PodRecord, decode_record
from gcushare.wire.kubelet.device_ids import cards_of_ids, decode_whole_card_id
from gcushare.wire.protos import podresources_pb2 as pb
from gcushare_playground.picture import phase_of
from tests.e2e.bursts import BurstPod, Part
from tests.e2e.node_side import NodeSide
from tests.e2e.objects import JsonObject


@dataclass(frozen=True, slots=True)
class AtRest:
    """One running pod: its record, the ids that the kubelet gave each container, the cards that each was shown.

    podresources lists no ordinary init containers; theirs are from the kubelet's checkpoint.
    """

    pod: BurstPod
    record: PodRecord | None
    ids: Mapping[str, frozenset[str]] = field(default_factory=dict)
    visible: Mapping[str, str] = field(default_factory=dict)

    @property
    def cards(self) -> tuple[int, ...]:
        """The cards of the record."""
        return self.record.card_indexes if self.record else ()

    def find_faults(self) -> list[str]:
        """Say every rule that this pod's cards break."""
        if self.record is None or not self.record.assigned:
            return [f"{self.pod}: its record is {self.record}"]
        faults = self._faults_of_record(self.record) + [
            fault for part in self.pod.parts for fault in self._faults_of_part(part)
        ]
        held = frozenset[str]().union(*self.ids.values())
        by_card = self._count(held)
        most = dict.fromkeys(self.cards, 1 if self.pod.whole else self.pod.total // self.pod.cards)
        if any(units > most.get(card, 0) for card, units in by_card.items()):
            faults.append(f"the kubelet gave it {by_card} in all")
        return [f"{self.pod}, recorded on {list(self.cards)}: {fault}" for fault in faults]

    def _faults_of_record(self, record: PodRecord) -> list[str]:
        pod, faults = self.pod, []
        wanted = pod.total if pod.whole else pod.cards
        if len(self.cards) != wanted:
            faults.append(f"it asked for {wanted} cards")
        if not pod.rule.allowed.issuperset(self.cards):
            faults.append(f"it may have {sorted(pod.rule.allowed)}")
        if record.whole != pod.whole or (not pod.whole and record.pod_units != pod.total):
            faults.append(f"its record says whole={record.whole} and {record.pod_units} units")
        shares = set() if pod.whole else set(record.units_by_card(pod.total).values())
        if len(shares) > 1:
            faults.append(f"its cards have different parts of it: {record.units_by_card(pod.total)}")
        return faults

    def _faults_of_part(self, part: Part) -> list[str]:
        """What a container holds and sees. What follows an init container may be given some of that one's ids."""
        by_card = self._count(self.ids.get(part.name, frozenset()))
        if self.pod.whole:
            expected, fits = sorted(by_card), sum(by_card.values()) == part.amount
        else:
            expected, share = sorted(self.cards), part.amount // self.pod.cards
            fits = (
                sum(by_card.values()) == part.amount
                if self._reuses(part)
                else by_card == dict.fromkeys(expected, share)
            )
        faults = [] if fits and by_card.keys() <= set(self.cards) else [f"the kubelet gave {part.name} {by_card}"]
        if self.visible.get(part.name) != ",".join(map(str, expected)):
            faults.append(f"{part.name} sees {self.visible.get(part.name)!r}")
        return faults

    def _reuses(self, part: Part) -> bool:
        before = self.pod.parts[: self.pod.parts.index(part)]
        return any(each.kind is ContainerKind.INIT for each in before)

    def _count(self, ids: Iterable[str]) -> dict[int, int]:
        return dict(Counter(map(decode_whole_card_id, ids)) if self.pod.whole else cards_of_ids(ids))


def find_preference_faults(pods: Iterable[AtRest], units: tuple[int, ...]) -> list[str]:
    """Say which pods are not on a card that they prefer, though every card has room for all pods together."""
    running = list(pods)
    if any(each.pod.whole or each.pod.by_hand for each in running):
        return []
    largest = max(range(len(units)), key=units.__getitem__)
    if sum(each.pod.needs(largest) for each in running) > min(units):
        return []
    return [
        f"{each.pod}, recorded on {list(each.cards)}: it prefers {sorted(each.pod.rule.preferred)}, which had room"
        for each in running
        if each.pod.cards == 1 and not each.pod.rule.preferred.issuperset(each.cards)
    ]


def free_units(pods: Iterable[AtRest], units: tuple[int, ...]) -> dict[int, int]:
    """What the records leave of each card; negative for a card that is given out more than once."""
    free = dict(enumerate(units))
    for each in pods:
        for card in each.cards:
            free[card] = free.get(card, 0) - each.pod.needs(card)
    return free


def has_room_for(pod: BurstPod, free: Mapping[int, int], units: tuple[int, ...]) -> bool:
    """Whether a pod could run on what others leave."""
    fitting = [card for card in pod.rule.allowed if free[card] >= (units[card] if pod.whole else pod.needs(card))]
    return len(fitting) >= (pod.total if pod.whole else pod.cards)


def recorded(pod: BurstPod, body: JsonObject) -> AtRest | None:
    """What the record of a pod says if it runs; None while it does not, or is not marked as assigned."""
    record = decode_record(ENFLAME, body.get("metadata", {}).get("annotations") or {})
    return AtRest(pod, record) if phase_of(body) == "Running" and record is not None and record.assigned else None


async def look_at(side: NodeSide, pods: Iterable[BurstPod]) -> list[AtRest]:
    """Look at running pods from all three sides."""
    listed = await listed_ids(side)
    admitted = await asyncio.to_thread(_checkpointed_ids, side)
    found = []
    for pod in pods:
        body = side.scheduling.pod(pod.name)
        uid = body["metadata"]["uid"]
        visible = {
            part.name: (await side.seen(pod.name, part.name)).get(ENFLAME.environment.visible, "") for part in pod.parts
        }
        ids = {
            part.name: (admitted if part.kind is ContainerKind.INIT else listed).get(
                (uid if part.kind is ContainerKind.INIT else pod.name, part.name), frozenset()
            )
            for part in pod.parts
        }
        found.append(AtRest(pod, decode_record(ENFLAME, body["metadata"]["annotations"]), ids, visible))
    return found


async def listed_ids(side: NodeSide) -> dict[tuple[str, str], frozenset[str]]:
    """What podresources shows: ids by pod and container."""
    answer = pb.ListPodResourcesResponse.FromString(
        await list_pod_resources(side.machine.root / "pod-resources" / "kubelet.sock")
    )
    return {
        (pod.name, container.name): frozenset(
            each for devices in container.devices if devices.resource_name in _OURS for each in devices.device_ids
        )
        for pod in answer.pod_resources
        for container in pod.containers
    }


def _checkpointed_ids(side: NodeSide) -> dict[tuple[str, str], frozenset[str]]:
    """The checkpoint's ids by pod's uid and container."""
    document = msgspec.json.decode((side.machine.plugins / "kubelet_internal_checkpoint").read_bytes())
    return {
        (entry["PodUID"], entry["ContainerName"]): frozenset(
            each for of_numa in entry["DeviceIDs"].values() for each in of_numa
        )
        for entry in document["Data"]["PodDeviceEntries"] or []
        if entry["ResourceName"] in _OURS
    }


_OURS = (ENFLAME.memory_resource, ENFLAME.whole_card_resource)
