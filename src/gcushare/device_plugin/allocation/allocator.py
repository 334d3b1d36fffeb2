"""Answers the kubelet's two calls for one resource, which name no pod: GetPreferredAllocation and Allocate.

The answer to Allocate follows from the ids alone. The likely pod is stored with it, and may turn out to be another.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, astuple, dataclass

from gcushare.core.cards import Health, Inventory, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.log_fields import Fields, fields
from gcushare.core.matching import Candidate, find_possible, has_room, match, order_candidates
from gcushare.core.whole_cards import LINKED, closeness
from gcushare.core.wording import counted, index_text
from gcushare.device_plugin.allocation.card_choice import (
    NodeUse,
    Preference,
    choose_ids,
    choose_whole_cards,
    count_units,
    merge,
    read_cards,
)
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.pods.annotation_diff import expect_write
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.container_environment import Grant
from gcushare.node.pods import CardCounts
from gcushare.wire.annotations import COMPUTE_SHARE, PROPORTIONAL
from gcushare.wire.kubelet.plugin_messages import DeviceIds, PreferredRequest
from gcushare.wire.protos import deviceplugin_pb2 as pb

logger = logging.getLogger(__name__)

MOST_IDS_LOGGED = 64
"""Ids of one container in one debug line; a large pod has thousands."""

MOST_PODS_LOGGED = 20
"""Pods in one line; with the finest units a card may have hundreds."""

SHOWN_PATIENCE_S = 0.15
"""How long a call waits until the kubelet shows the grant before it, if both may be for one pod. It shows a grant after
6 to 25 ms."""


class PodChanges:
    """Wakes the calls that wait for a pod whenever the pod store has changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiting calls: the store has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait for a change that makes the condition true; False if the loop's time passes the deadline before."""
        while not condition():
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                return False
        return True


@dataclass(eq=False)
class CardAllocator:
    """The allocator of one resource: units of memory, or ``whole`` cards. It never waits for the API server.

    ``on_allocate`` is called after each grant, so that the kubelet is read soon and the card is closed to the other
    resource at once. With ``wait_for_pod_s`` 0 no call waits for its pod.
    """

    store: PodStore
    responses: AllocateResponses
    pods: PodChanges
    _: KW_ONLY
    whole: bool
    wait_for_pod_s: float
    clock: Callable[[], float]
    wall_clock_ns: Callable[[], int]
    on_allocate: Callable[[], None]

    def __post_init__(self) -> None:
        self._inventory: Inventory | None = None
        self._expected: tuple[Preference, int] | None = None
        """The last preference and its size: the next Allocate is for the same container."""

    def set_inventory(self, inventory: Inventory) -> None:
        """Use these cards for the calls that follow."""
        self._inventory = inventory

    async def prefer(self, request: PreferredRequest) -> list[bytes]:
        """Choose the ids of one container.

        Raises:
            Refused, RemoteContractError: no card fits, or the ids are of another layout; the pod fails with it.
        """
        with self.store.one_call():
            return await self._prefer(request)

    async def allocate(self, ids: DeviceIds) -> pb.ContainerAllocateResponse:
        """Grant one container the cards that its ids name.

        Raises:
            Refused, RemoteContractError: the ids name no card of this node, a card that is sick or in the other use,
                more cards than the container may have, or another layout.
        """
        with self.store.one_call():
            return self._grant(ids)

    async def _prefer(self, request: PreferredRequest) -> list[bytes]:
        inventory = self._require_inventory()
        if self.whole:
            free = dict.fromkeys((*read_cards(request.available), *read_cards(request.must_include)), 1)
        else:
            free = request.available.count_by_card()
        await self._wait_for_candidate(request, free)
        preference = self._choose(request, inventory)
        self._expected = (preference, request.size)
        pod = preference.candidate.pod if preference.candidate else None
        logger.debug("preferring %s", fields(pod=pod, size=request.size, card=preference.card_indexes))
        if preference.moved_from:
            logger.warning(
                "the recorded card has no room, another is used %s",
                fields(pod=pod, size=request.size, recorded=preference.moved_from, card=preference.card_indexes),
            )
        return preference.entries

    def _grant(self, ids: DeviceIds) -> pb.ContainerAllocateResponse:
        inventory = self._require_inventory()
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("allocating %s", fields(count=len(ids), ids=",".join(ids.first(MOST_IDS_LOGGED))))
        counts = dict.fromkeys(read_cards(ids), 1) if self.whole else count_units(ids)
        cards = _named_cards(counts, inventory)
        size = sum(counts.values())
        was_asked = self._expected is not None
        candidate = self._take_expected(counts)
        candidates, doubtful = self._find_pods(size)
        concerned = merge(find_possible(candidates, size, whole=self.whole), doubtful)
        if candidate is None:
            self._check_rules(counts, cards, concerned, was_asked=was_asked)
            candidate = match(candidates, size, counts, whole=self.whole)
        cards = _named_cards(self._cards_of_pod(counts, candidate), inventory)
        _check_health(cards)
        self._check_use(counts)
        if not self.whole:
            self.responses.check(cards)
        uid, container = (candidate.pod.uid, candidate.next_container) if candidate else ("", "")
        self.store.on_allocate(uid, container, counts, self.clock(), whole=self.whole, ids=ids)
        self.on_allocate()
        if self.whole:
            grant = Grant(cards, sum(card.units for card in cards), whole=True)
        else:
            grant = self._grant_memory(cards, size, merge([candidate], concerned) if candidate else [])
        if logger.isEnabledFor(logging.INFO):
            logger.info("allocated %s", self._explain(candidate, grant, inventory))
        return self.responses.build(grant, inventory.unit)

    def _explain(self, candidate: Candidate | None, grant: Grant, inventory: Inventory) -> Fields:
        """Name the facts of one grant: its pod, its cards, the other pods that have them, and the pod's annotations.

        The new annotations are those that will be written once the kubelet shows this grant for this pod.
        """
        entry = self.store.entries.get(candidate.pod.uid) if candidate is not None else None
        old: dict[str, str] = {}
        new: dict[str, str] = {}
        if entry is not None:
            vendor, uuids = self.responses.vendor, {card.index: card.uuid for card in inventory.cards}
            write = expect_write(entry, vendor, uuids, inventory.units_by_card, self.wall_clock_ns())
            keys = {*astuple(vendor.record), *(write.annotations if write is not None else ())}
            old = {key: entry.annotations[key] for key in sorted(keys) if key in entry.annotations}
            new = old | (dict(write.annotations) if write is not None else {})
        return fields(
            pod=candidate.pod if candidate else "unknown",
            uid=candidate.pod.uid if candidate else "unknown",
            container=candidate.next_container if candidate else "unknown",
            card=index_text(card.index for card in grant.cards),
            card_uuid=",".join(card.uuid for card in grant.cards),
            units=grant.units,
            whole=grant.whole,
            card_pods=self._describe_others(grant, candidate),
            old_annotations=json.dumps(old),
            new_annotations=json.dumps(new),
        )

    def _describe_others(self, grant: Grant, candidate: Candidate | None) -> str:
        """Name the other pods on the cards of a grant with their units, as the extender does when it binds."""
        own = str(candidate.pod) if candidate is not None else ""
        users = (self.store.users_with_units(card.index, card.units) for card in grant.cards)
        others = sorted(f"{name}:{units}" for of_card in users for name, units in of_card.items() if name != own)
        more = f" and {len(others) - MOST_PODS_LOGGED} more" if len(others) > MOST_PODS_LOGGED else ""
        return ",".join(others[:MOST_PODS_LOGGED]) + more

    def _choose(self, request: PreferredRequest, inventory: Inventory) -> Preference:
        store = self.store
        candidates, doubtful = self._find_pods(request.size)
        in_other_use = store.cards_in_use(whole=not self.whole)
        cards = {card.index: card for card in inventory.cards}
        if self.whole:
            memory = {index: "" for index, units in store.promised().items() if units}
            use = NodeUse(cards, in_other_use, memory | store.promised_whole())
            free, included = read_cards(request.available), read_cards(request.must_include)
            return choose_whole_cards(request.size, free, candidates, use, included, doubtful)
        promised = store.promised()
        for index in store.promised_whole() & cards.keys():
            promised[index] = promised.get(index, 0) + cards[index].units
        return choose_ids(request, candidates, promised, cards, in_other_use, doubtful, store.cards_of_unknown())

    def _check_use(self, cards: Collection[int]) -> None:
        """Refuse a card that is in the other use. The kubelet then fails the pod."""
        for index in sorted(self.store.cards_in_use(whole=not self.whole).intersection(cards)):
            pods = ", ".join(self.store.users_of(index, whole=not self.whole)) or "a pod of this node"
            use = (
                f"is shared: {pods} uses memory of it, so it cannot be given whole"
                if self.whole
                else f"is in use as a whole by {pods}, so no memory of it can be given"
            )
            raise Refused(f"card {index} {use}; the pod must be scheduled again")

    def _cards_of_pod(self, counts: CardCounts, candidate: Candidate | None) -> Collection[int]:
        """The cards that a container sees: all of a pod's, if the kubelet gave it ids of an earlier container again."""
        if candidate is None or self.whole or not candidate.served or not set(counts) <= set(candidate.card_indexes):
            return counts
        return candidate.card_indexes

    def _check_rules(
        self, counts: CardCounts, cards: Collection[InventoryCard], concerned: Sequence[Candidate], *, was_asked: bool
    ) -> None:
        """Refuse cards that a pod that the call may be for cannot have. The kubelet then fails the pod.

        ``was_asked``: the kubelet asked which ids are preferred. It does not if it has no others.
        """
        cause = (
            "the kubelet did not follow the plugin's preference; delete the pod to have it placed again"
            if was_asked
            else "the kubelet asked for no preference, as with the last free ids; the pod must be scheduled again"
        )
        size = sum(counts.values())
        for each in concerned or (None,):
            wanted = each.request.cards.cards if each is not None else 1
            if self.whole:
                pass
            elif each is not None and each.is_partly_served:
                if not set(counts) <= set(each.card_indexes):
                    raise Refused(
                        f"container {each.next_container!r} of pod {each.pod} was given card {sorted(counts)}, and its "
                        f"other containers hold card {list(each.card_indexes)}: all containers of a pod share its "
                        "cards; delete the pod"
                    )
            elif len(counts) != wanted:
                spread = ", ".join(f"{count} of card {index}" for index, count in sorted(counts.items()))
                raise Refused(
                    f"{counted(size, 'unit', 'were')} taken from {counted(len(counts), 'card')} ({spread}), and "
                    f"{each.pod if each is not None else 'the container'} gets "
                    f"{'one' if wanted == 1 else wanted}: {cause}"
                )
            elif each is not None and each.linked and closeness(list(cards), wanted) != LINKED:
                raise Refused(
                    f"cards {index_text(sorted(counts))} were taken, which are not linked with each other, and pod "
                    f"{each.pod} asks for that (gcushare.io/cards-linked): {cause}"
                )
            for card in cards:
                if each is not None and not each.allows(card):
                    raise Refused(
                        f"card {card.index} was taken, which the annotations of pod {each.pod} exclude: {cause}"
                    )
            if each is not None and each.is_partly_served:
                return  # The kubelet asks for a pod's containers in a row.

    def _grant_memory(self, cards: tuple[InventoryCard, ...], size: int, possible: Sequence[Candidate]) -> Grant:
        """Make the grant. What the pod adds to it counts only if every pod that the call can be for has the same.

        That is the pod's sum, its share of compute, and how much more than its request it may use.
        """
        sums = {each.request.total_units for each in possible}
        entries = [self.store.entries[each.pod.uid] for each in possible]
        more = {max(0, entry.limit - entry.request.cards.units) * len(cards) for entry in entries}
        usable = size + (more.pop() if len(more) == 1 else 0)
        return Grant(
            cards,
            size,
            sums.pop() if len(sums) == 1 else None,
            shares_threads=bool(entries)
            and all(each.annotations.get(COMPUTE_SHARE) == PROPORTIONAL for each in entries),
            limit=min(usable, sum(card.units for card in cards)),
        )

    def _require_inventory(self) -> Inventory:
        if self._inventory is None:
            raise Refused("the plugin has not found this node's cards yet; the pod can be created again in a moment")
        return self._inventory

    async def _wait_for_candidate(self, request: PreferredRequest, free: CardCounts) -> None:
        """Wait, bounded, for a bound pod that the kubelet knows before our own watch shows it.

        A pod whose cards are taken does not end the wait: another pod with an equal request got them, whose own cards
        are free and become known once the watch shows that pod.
        """
        size = request.size
        if not self.wait_for_pod_s:
            return
        now = asyncio.get_running_loop().time()
        patience = now + min(self.wait_for_pod_s, SHOWN_PATIENCE_S)

        def is_clear() -> bool:
            candidates, doubtful = self._find_pods(size)
            possible = merge(find_possible(candidates, size, whole=self.whole), doubtful)
            rules = {(each.request.cards.cards * (not self.whole), each.selection) for each in possible}
            return len(rules) < 2 and not self.store.may_continue_another(size, whole=self.whole)

        await self.pods.until(is_clear, patience)

        def has_candidate() -> bool:
            candidates = order_candidates(self.store.candidates(whole=self.whole), size, whole=self.whole)
            return any(not each.card_indexes or has_room(each, size, free) for each in candidates)

        if not await self.pods.until(has_candidate, now + self.wait_for_pod_s):
            facts = fields(size=size, whole=self.whole, waited_s=self.wait_for_pod_s)
            logger.warning("no bound pod with room on its card asks for this size %s", facts)

    def _find_pods(self, size: int) -> tuple[list[Candidate], list[Candidate]]:
        """The pods that a call for this amount can be for, and those whose calls are in doubt."""
        return self.store.candidates(whole=self.whole), self.store.doubtful(size, whole=self.whole)

    def _take_expected(self, counts: CardCounts) -> Candidate | None:
        """The pod that ids were just preferred for, if the kubelet took these."""
        expected, self._expected = self._expected, None
        if expected is None:
            return None
        preference, size = expected
        chosen = preference.candidate
        if chosen is None or size != sum(counts.values()) or set(preference.card_indexes) != set(counts):
            return None
        candidates = self.store.candidates(whole=self.whole)
        return next((c for c in candidates if c.pod.uid == chosen.pod.uid and c.served == chosen.served), None)


def _named_cards(indexes: Collection[int], inventory: Inventory) -> tuple[InventoryCard, ...]:
    if not indexes:
        raise Refused("the kubelet asked to allocate no device ids; nothing was granted")
    known = {card.index: card for card in inventory.cards}
    for index in indexes:
        if index not in known:
            raise Refused(f"card {index} is not on this node any more; its cards are {sorted(known)}")
    return tuple(known[index] for index in sorted(indexes))


def _check_health(cards: Collection[InventoryCard]) -> None:
    """Refuse a card that was lost or fell ill since the kubelet chose it: no container of the pod could use it."""
    for card in cards:
        if card.health is Health.UNHEALTHY:
            raise Refused(f"card {card.index} is not healthy any more: {card.reason}; the pod must be scheduled again")
