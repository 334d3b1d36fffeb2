"""Pods that ask for a percentage of a card: the units on each card, the record, and what the kubelet counts as free."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import Inventory
from gcushare.core.errors import Refused
from gcushare.core.explain.reason_text import summarise
from gcushare.core.explain.reasons import Explainer, Verdict
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.preemption.kept_room import compute_room_left
from gcushare.core.preemption.victims import choose_victims
from gcushare.core.requests import CardRequest, CardSelection
from gcushare.device_plugin.allocation.allocator import CardAllocator, PodChanges
from gcushare.device_plugin.allocation.card_choice import choose_ids
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARDS, MEMORY_LIMIT, MEMORY_PERCENT, PodRecord, decode_record
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.device_lists import DeviceIds, PreferredRequest, device_ids
from gcushare.wire.objects import Pod
from gcushare.wire.pods import pod_assignment, pod_request
from tests.builders import GIB_UNIT, card, cards, held, pod
from tests.extender_objects import DEFAULT_POLICIES, a_node, a_pod, recount, rejected, state_of
from tests.unit.extender_binds import Rig

HALF = {MEMORY_PERCENT: "50"}
ALLOWED = replace(DEFAULT_POLICIES, percent=True)
BINPACK = POLICIES["binpack"].rank_card


def share(percent: int = 50, units: int = 1) -> CardRequest:
    return CardRequest(units, selection=CardSelection(percent=percent))


def node_of(*sizes: int) -> NodeState:
    node = NodeState("n1")
    node.set_cards(cards(*sizes), GIB_UNIT)
    return node


def bound(name: str, units: int, *, index: int = 0, of: int = 16, recorded: int = 0, percent: str = "") -> Pod:
    """A pod of this node with a record; ``recorded`` are the record's units if they are not the request's."""
    record = PodRecord(card_indexes=(index,), card_units=of, pod_units=recorded or units, assign_time_ns=1)
    return a_pod(name, units, node="n1", record=record, annotations={MEMORY_PERCENT: percent} if percent else {})


# The units of a card


@pytest.mark.parametrize(
    ("percent", "size", "least", "units"),
    [(50, 16, 1, 8), (50, 32, 1, 16), (50, 15, 1, 7), (33, 16, 1, 5), (100, 15, 1, 15), (1, 16, 1, 1), (10, 16, 4, 4)],
)
def test_the_units_follow_from_the_card_and_are_at_least_the_request(
    percent: int, size: int, least: int, units: int
) -> None:
    assert share(percent, least).units_on(size) == units


@given(percent=st.integers(1, 100), size=st.integers(1, 1000))
def test_as_many_pods_fit_on_a_card_as_their_percentages_promise(percent: int, size: int) -> None:
    ledger = Ledger()
    ledger.set_node("n1", [card(0, size)], GIB_UNIT)
    for number in range(min(100 // percent, size)):
        ledger.reserve(pod(f"p{number}"), "n1", share(percent), BINPACK)
    assert ledger.nodes["n1"].used <= size


def test_on_unequal_cards_each_pod_gets_its_part_of_the_card_that_it_has() -> None:
    ledger = Ledger()
    ledger.set_node("n1", cards(16, 40), GIB_UNIT)
    grants = [ledger.reserve(pod(f"p{n}"), "n1", share(50), BINPACK).grants[0] for n in range(4)]
    assert sorted((grant.index, grant.units) for grant in grants) == [(0, 8), (0, 8), (1, 20), (1, 20)]
    assert not ledger.nodes["n1"].fits(share(50))
    with pytest.raises(Refused, match="needs 50 % of one card, at least 1"):
        ledger.reserve(pod("p5"), "n1", share(50), BINPACK)


def test_a_percentage_fits_only_if_that_much_is_free() -> None:
    node = node_of(16)
    node.add(held("a", "n1", (0, 9)))
    assert not node.fits(share(50))
    assert node.fits(share(25))
    explainer = Explainer(share(50))
    explainer.add(node)
    found = explainer.finish()
    assert [each.verdict for each in found.classes] == [Verdict.FULL]
    assert summarise(found).startswith("needs 50 % of one card, at least 1; best card free: 7 ")


def test_preemption_frees_the_percentage_and_keeps_it_for_the_nominee() -> None:
    node = node_of(16)
    low = replace(held("low", "n1", (0, 10)))
    node.add(low)
    assert choose_victims(node, share(50), [low.pod]) == (low.pod,)
    assert choose_victims(node, share(25), [low.pod]) == ()
    assert compute_room_left(node, [share(50)], [low.pod.uid]) == {0: 8}


# From the annotation to the record


def test_filter_refuses_it_with_the_reason_unless_the_admin_allows_it() -> None:
    refusing = state_of(a_node("n1", 16))
    refusing.on_pod_update(a_pod("a", 1, annotations=HALF))
    assert "memory-percent=50 is not granted here" in rejected(refusing, "uid-a").problem
    state = state_of(a_node("n1", 16), policies=ALLOWED)
    state.on_pod_update(a_pod("a", 1, annotations=HALF))
    request = state.find_request("uid-a")
    assert request is not None
    assert (request.cards.percent, request.cards.excludes_cards) == (50, False)


@pytest.mark.parametrize(
    ("annotations", "whole", "words"),
    [
        pytest.param({MEMORY_PERCENT: "0"}, 0, "memory-percent='0' is not accepted", id="0"),
        pytest.param({MEMORY_PERCENT: "101"}, 0, "memory-percent='101' is not accepted", id="more than a card"),
        pytest.param({MEMORY_PERCENT: "half"}, 0, "memory-percent='half'", id="a word"),
        pytest.param({MEMORY_PERCENT: "50", CARDS: "2"}, 0, "not granted together with gcushare.io/cards", id="cards"),
        pytest.param(
            {MEMORY_PERCENT: "50", MEMORY_LIMIT: "9"}, 0, "together with gcushare.io/memory-limit", id="limit"
        ),
        pytest.param({MEMORY_PERCENT: "50"}, 1, "is for shared memory", id="whole cards"),
    ],
)
def test_a_value_that_is_not_granted_has_one_reason(annotations: dict[str, str], whole: int, words: str) -> None:
    state = state_of(a_node("n1", 16), policies=ALLOWED)
    state.on_pod_update(a_pod("a", None if whole else 2, whole=whole, annotations=annotations))
    assert words in rejected(state, "uid-a").problem


async def test_bind_records_the_units_and_a_restarted_extender_counts_them() -> None:
    rig = Rig(*(a_pod(name, 1, annotations=HALF) for name in "ab"), cards=(16,), policies=ALLOWED)
    for name in "ab":
        await rig.bind(name)
    assert rig.used() == [16]
    record = decode_record(ENFLAME, rig.cluster.pods["default", "a"].metadata.annotations)
    assert record is not None
    assert (record.pod_units, record.card_units) == (8, 16)
    again = state_of(a_node("node-1", 16), policies=ALLOWED)
    for each in rig.cluster.pods.values():
        again.on_pod_update(each)
    assert again.ledger.nodes["node-1"].used == 16
    assert recount(again) == []


@pytest.mark.parametrize(
    ("pod_", "units"),
    [
        pytest.param(bound("a", 1, recorded=8, percent="50"), 8, id="as recorded"),
        pytest.param(bound("a", 4, recorded=2, percent="50"), 4, id="never less than the spec"),
        pytest.param(bound("a", 1, recorded=99, percent="50"), 16, id="never more than the card"),
        pytest.param(bound("a", 1, recorded=8), 1, id="not without the annotation"),
    ],
)
def test_a_record_cannot_make_a_pod_hold_less_than_its_spec_or_more_than_its_card(pod_: Pod, units: int) -> None:
    assignment = pod_assignment(pod_, ENFLAME)
    assert assignment is not None
    assert assignment.units == units


def test_a_pod_without_a_record_holds_what_it_requests() -> None:
    request = pod_request(a_pod("a", 2, node="n1", annotations=HALF), ENFLAME, is_bound=True)
    assert request is not None
    assert (request.total_units, request.beyond) == (2, 0)


# On the node: the kubelet gives ids for the request alone


class Plugin:
    """One card of 16 units, its pods, and the plugin's answers to the kubelet."""

    def __init__(self, *pods: Pod) -> None:
        self.store = PodStore(ENFLAME)
        for each in pods:
            self.store.on_pod_update(each)
        self.allocator = CardAllocator(
            self.store,
            AllocateResponses(ENFLAME, (Strategy.ENV,)),
            PodChanges(),
            whole=False,
            wait_for_pod_s=0.0,
            clock=lambda: 0.0,
            wall_clock_ns=lambda: 0,
            on_allocate=lambda: None,
        )
        self.allocator.set_inventory(Inventory(unit=GIB_UNIT, cards=(card(0, 16),)))

    def allocate(self, count: int, *, first: int = 0) -> dict[str, str]:
        """Give a container so many ids, beginning with this one."""
        ids = device_ids_of_card(0, 16)[first : first + count]
        return dict(asyncio.run(self.allocator.allocate(device_ids(ids))).envs)


def test_the_container_may_use_the_recorded_units_and_the_node_counts_them() -> None:
    plugin = Plugin(bound("a", 1, recorded=8, percent="50"))
    given_ = plugin.allocate(1)
    names = ENFLAME.environment
    assert (given_[names.pod_units], given_[names.container_bytes]) == ("8", str(8 << 30))
    plugin.store.on_kubelet_read(KubeletAllocations(memory={"default/a": {"main": {0: 1}}}))
    assert plugin.store.held_units() == {0: 8}


def test_a_call_that_may_be_for_a_pod_without_the_percentage_is_answered_with_the_request() -> None:
    plugin = Plugin(bound("a", 1, recorded=8, percent="50"), bound("b", 1))
    assert plugin.allocate(1)[ENFLAME.environment.container_bytes] == str(1 << 30)


@pytest.mark.parametrize("is_served", [False, True])
def test_a_pod_that_the_extender_did_not_place_cannot_take_what_the_kubelet_counts_as_free(is_served: bool) -> None:
    plugin = Plugin(bound("a", 1, recorded=8, percent="50"))
    if is_served:
        plugin.allocate(1)
        plugin.store.on_kubelet_read(KubeletAllocations(memory={"default/a": {"main": {0: 1}}}))
    text = (
        r"^card 0 has 8 free units, and 9 are asked for: pods with a percentage of it hold more than the kubelet knows;"
    )
    with pytest.raises(Refused, match=f"{text} the pod must be scheduled again$"):
        plugin.allocate(9, first=1)
    plugin.allocate(8, first=1)


def test_the_preference_leaves_those_units_to_their_pod() -> None:
    free = device_ids([*device_ids_of_card(0, 16)[1:], *device_ids_of_card(1, 16)])
    beyond = {0: 7}
    preference = choose_ids(PreferredRequest(free, device_ids([]), 9), [], {}, {0: 16, 1: 16}, (), beyond)
    assert preference.card_indexes == (1,)
    preference = choose_ids(PreferredRequest(free, device_ids([]), 8), [], {}, {0: 16, 1: 16}, (), beyond)
    assert DeviceIds(b"".join(preference.entries)).count_by_card() == {0: 8}
    with pytest.raises(Refused, match=r"card 0: 8 of 16"):
        choose_ids(
            PreferredRequest(device_ids(device_ids_of_card(0, 16)[1:]), device_ids([]), 9), [], {}, {0: 16}, (), beyond
        )


def test_the_waiting_pod_itself_gets_its_id_when_all_other_units_are_taken() -> None:
    plugin = Plugin(bound("a", 1, recorded=8, percent="50"), bound("b", 8))
    plugin.allocate(8)
    assert plugin.store.promised(only_ids=True) == {0: 1}
    left = PreferredRequest(device_ids(device_ids_of_card(0, 16)[8:]), device_ids([]), 1)
    entries = asyncio.run(plugin.allocator.prefer(left))
    assert len(entries) == 1
    plugin.allocate(1, first=8)


def test_a_pod_whose_card_is_full_is_moved_with_all_of_its_percentage() -> None:
    plugin = Plugin(bound("a", 1, recorded=8, percent="50"))
    (candidate,) = plugin.store.candidates()
    full = [*device_ids_of_card(1, 16)[9:], *device_ids_of_card(2, 16)[8:]]
    moved = choose_ids(PreferredRequest(device_ids(full), device_ids([]), 1), [candidate], {}, {0: 16, 1: 16, 2: 16})
    assert (moved.card_indexes, moved.moved_from) == ((2,), (0,)), "card 1 has 7 free units and the pod holds 8"


def test_a_pods_own_promise_keeps_no_room_from_it() -> None:
    plugin = Plugin(bound("a", 6, index=0), bound("b", 5, index=1))
    (candidate, _) = plugin.store.candidates()
    free = device_ids([*device_ids_of_card(1, 16)[9:], *device_ids_of_card(2, 16)[6:]])
    promised = {1: 5, 2: 6}
    own = replace(candidate, card_indexes=(2, 0))
    moved = choose_ids(PreferredRequest(free, device_ids([]), 6), [own], promised, {0: 16, 1: 16, 2: 16})
    assert moved.card_indexes == (2,)


def test_of_a_waiting_pods_percentage_only_its_ids_are_kept_a_second_time() -> None:
    plugin = Plugin(bound("a", 1, recorded=8, percent="50"))
    plugin.allocator.set_inventory(Inventory(unit=GIB_UNIT, cards=(card(0, 16), card(1, 16))))
    free = device_ids([*device_ids_of_card(0, 16), *device_ids_of_card(1, 16)])
    entries = asyncio.run(plugin.allocator.prefer(PreferredRequest(free, device_ids([]), 8)))
    assert DeviceIds(b"".join(entries)).count_by_card() == {0: 8}, "of 16 units 7 are beyond the ids, and 1 is kept"
