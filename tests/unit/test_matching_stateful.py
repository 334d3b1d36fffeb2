"""Matching against a kubelet that admits in another order than pods were bound in, in every mixture of steps.

The kubelet here is a dictionary of who holds which ids. It asks as the stock one does: one pod at a time, container by
container, naming no pod. After each read of the kubelet, the store must say what the dictionary says.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused
from gcushare.device_plugin.allocation.card_choice import choose_ids
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from gcushare.wire.kubelet.device_ids import decode_device_id, device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import PreferredRequest, device_ids
from tests.unit.plugin_pods import pod
from tests.unit.plugin_reconcile import reconcile

CARDS = {0: 8, 1: 8}
INVENTORY = {i: InventoryCard(index=i, uuid=f"u{i}", memory_bytes=n << 30, units=n) for i, n in CARDS.items()}
IDS = frozenset(each for index, units in CARDS.items() for each in device_ids_of_card(index, units))
SHAPES = ((4,), (4,), (2,), (2, 2), (1, 3))


@dataclass
class BoundPod:
    """A pod as the API server has it, and the ids that the kubelet really gave its containers."""

    name: str
    units: tuple[int, ...]
    card: int
    written: dict[str, str] = field(default_factory=dict)
    ids: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    def counts(self) -> dict[str, dict[int, int]]:
        return {
            name: dict(Counter(decode_device_id(each)[0] for each in ids)) for name, ids in sorted(self.ids.items())
        }

    def cards(self) -> set[int]:
        return {index for counts in self.counts().values() for index in counts}


class Matching(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = PodStore(ENFLAME)
        self.pods: dict[str, BoundPod] = {}
        self.made = 0
        self.is_settled = True
        self.was_cut_short = False
        """Whether a pod ended before the kubelet's allocations showed what it was given."""
        self.was_mixed_up = False
        """Whether a pod was served as one of another request: only pods of equal requests can change places."""

    def show(self, each: BoundPod, phase: str = "Pending") -> None:
        shown = pod(each.name, *each.units, card=each.card, phase=phase)
        shown.metadata.annotations.update(each.written)
        self.store.pod_applied(shown)

    def planned(self) -> dict[int, int]:
        """Units per card by the records."""
        planned = dict.fromkeys(CARDS, 0)
        for each in self.pods.values():
            planned[each.card] += sum(each.units)
        return planned

    @rule(shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4), preferred=st.sampled_from(sorted(CARDS)))
    def bind(self, shapes: list[tuple[int, ...]], preferred: int) -> None:
        """The scheduler binds pods, each with a card on which it fits by the records.

        Once corrections have reached it: before, it may give room that somebody has, which the kubelet then refuses.
        """
        self.look()
        self.write()
        for shape in shapes:
            planned = self.planned()
            able = [index for index in (preferred, 1 - preferred) if planned[index] + sum(shape) <= CARDS[index]]
            if able:
                self.made += 1
                each = BoundPod(f"p{self.made}", shape, able[0])
                self.pods[each.uid] = each
                self.show(each)

    @precondition(lambda self: any(not each.ids for each in self.pods.values()))
    @rule(data=st.data(), looks=st.booleans())
    def admit(self, data: st.DataObject, looks: bool) -> None:
        """The kubelet admits any pod that waits; its record may be read between two containers of it."""
        waiting = sorted(each.uid for each in self.pods.values() if not each.ids)
        each = self.pods[data.draw(st.sampled_from(waiting), label="admitted")]
        for number, size in enumerate(each.units):
            taken = frozenset().union(*(ids for other in self.pods.values() for ids in other.ids.values()))
            request = PreferredRequest(device_ids(sorted(IDS - taken)), device_ids([]), size)
            try:
                chosen = choose_ids(request, self.store.candidates(), self.store.promised(), INVENTORY)
            except Refused:
                self.end(each)
                return
            ids = frozenset(entry[2:].decode() for entry in chosen.entries)
            assert len(ids) == size
            assert ids.isdisjoint(taken)
            assert chosen.candidate is None or chosen.candidate.next_units == size
            candidate, container = chosen.candidate, ""
            if candidate is not None:
                container = candidate.next_container
                self.was_mixed_up |= self.pods[candidate.pod.uid].units != each.units
            counts = dict(Counter(decode_device_id(one)[0] for one in ids))
            self.store.on_allocate(candidate.pod.uid if candidate is not None else "", container, counts, 0.0)
            each.ids[f"c{number}"] = ids
            self.is_settled = False
            if looks or len(each.units) > 1:  # as the allocator does before a call that may continue another pod
                self.look()

    @rule()
    def look(self) -> None:
        """The plugin reads the kubelet's allocations, long enough after the last call to believe what is not in it."""
        reconcile(self.store, {f"d/{each.name}": each.counts() for each in self.pods.values() if each.ids})
        assert self.was_cut_short or self.store.pending_allocations == 0, "all that was handed out is shown"
        self.store.end_pending(1.0, is_readable=True)
        self.is_settled, self.was_cut_short = True, False

    @rule()
    def write(self) -> None:
        """The plugin's corrections reach the API server, and come back by the watch."""
        for write in self.store.writes({0: "u0", 1: "u1"}, CARDS, 7):
            each = self.pods[write.pod.uid]
            (each.card,) = write.cards
            each.written = dict(write.annotations)
            self.store.on_record_written(write)
            self.show(each)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.end(self.pods[data.draw(st.sampled_from(sorted(self.pods)), label="finished")])

    def end(self, each: BoundPod) -> None:
        self.was_cut_short = not self.is_settled
        del self.pods[each.uid]
        self.show(each, phase="Succeeded")
        self.look()

    @rule()
    def restart(self) -> None:
        """A new plugin knows nothing but the API server and the kubelet's allocations."""
        self.store = PodStore(ENFLAME)
        for each in self.pods.values():
            self.show(each)
        self.look()

    @invariant()
    def who_has_ids_is_not_asked_for(self) -> None:
        if not self.is_settled:
            return
        waiting = {each.uid: each for each in self.pods.values() if len(each.ids) < len(each.units)}
        candidates = {candidate.pod.uid: candidate for candidate in self.store.candidates()}
        assert candidates.keys() == waiting.keys()
        assert self.store.pending_allocations == 0
        assert not any(candidate.is_displaced for candidate in candidates.values())

    @invariant()
    def what_is_held_is_what_the_kubelet_gave(self) -> None:
        if not self.is_settled:
            return
        given = Counter(
            decode_device_id(one)[0] for each in self.pods.values() for ids in each.ids.values() for one in ids
        )
        assert {index: units for index, units in self.store.held_units(CARDS).items() if units} == dict(given)

    @invariant()
    def what_waits_still_fits_beside_what_is_held(self) -> None:
        if not self.is_settled or self.was_mixed_up:
            return
        held, promised = self.store.held_units(CARDS), self.store.promised()
        assert all(held.get(index, 0) + promised.get(index, 0) <= units for index, units in CARDS.items())

    def teardown(self) -> None:
        """Once everything was looked at and written, every record names the card that the pod really has."""
        self.look()
        self.write()
        for each in self.pods.values():
            if len(each.ids) == len(each.units):
                assert (each.cards(), each.written.get(ENFLAME.record.assigned)) == ({each.card}, "true")
        assert self.store.writes({0: "u0", 1: "u1"}, CARDS, 7) == []


TestMatching = Matching.TestCase
TestMatching.settings = settings(stateful_step_count=20, deadline=None, derandomize=True)


def test_after_a_restart_one_change_of_places_makes_way_for_the_next() -> None:
    """Three of four pods got each other's cards, and nothing of it was written before the plugin ended."""
    store = PodStore(ENFLAME)
    for name, index in (("p1", 1), ("p2", 1), ("p3", 0), ("p4", 0)):
        store.pod_applied(pod(name, 4, card=index))
    reconcile(store, {f"d/{name}": {"c0": {index: 4}} for name, index in (("p1", 0), ("p3", 1), ("p4", 0))})
    assert (store.held_units(), store.promised()) == ({0: 8, 1: 4}, {1: 4})
