"""Where the node's facts meet: what the kubelet is sent, what is published, and what people hear of it."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import InventoryCard
from gcushare.core.units import GIB
from gcushare.vendors import ALIYUN
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from tests.unit.node_agent_rig import Rig, make_rig


@pytest.fixture
def rig() -> Rig:
    return make_rig()


def test_a_source_that_fails_for_a_while_takes_no_card_away(rig: Rig) -> None:
    rig.see(16, 16)
    rig.agent.on_cards_change(CardsSnapshot((), problem="the library does not answer"))
    assert rig.listed() == (32, 32)
    assert rig.agent.problem == "the library does not answer"


@pytest.mark.parametrize("cordon", ["u9", "0,u9"], ids=["alone", "with a card"])
def test_a_cordon_that_names_nothing_is_reported_once(rig: Rig, cordon: str) -> None:
    rig.see(16)
    for _ in range(2):
        rig.node(cordon=cordon)
        rig.hold()
    assert rig.heard.reasons().count("UnknownCordon") == 1


def test_auto_keeps_its_unit_while_it_fits_and_changes_it_only_when_no_one_holds_any() -> None:
    rig = make_rig(unit="auto")
    rig.see(300)
    assert rig.agent.inventory is not None
    assert rig.agent.inventory.unit.name == "0.01"
    rig.see(16)
    assert rig.agent.inventory.unit.name == "0.01"
    rig.hold(a=device_ids_of_card(0, 4))
    rig.see(4000)
    assert "changes from '0.01' to '0.1'" in rig.agent.problem
    rig.hold()
    assert rig.agent.inventory.unit.name == "0.1"


def test_a_card_that_does_not_fit_the_unit_keeps_no_health_and_no_cordon_of_the_others_back() -> None:
    rig = make_rig(unit="0.01")
    rig.see(80, 80)
    rig.hold()
    assert rig.listed() == (16000, 16000)
    rig.see(80, 80, 4000, sick={1: "lost"})
    assert "no unit fits" in rig.agent.problem or "the finest unit that fits" in rig.agent.problem
    assert rig.agent.problem.endswith("the cards of before (0,1) stay offered in units of '0.01', no others")
    assert rig.listed() == (16000, 8000)
    assert rig.parts.publisher.wanted == rig.agent.inventory
    assert "CardUnhealthy" in rig.heard.reasons()
    rig.node(cordon="0")
    assert rig.listed() == (16000, 0)
    rig.node()
    rig.see(80, 80)
    assert (rig.agent.problem, rig.listed()) == ("", (16000, 16000))


def test_a_card_that_was_replaced_by_one_that_does_not_fit_is_unhealthy() -> None:
    rig = make_rig(unit="0.01")
    rig.see(80, 80)
    rig.see(80, 4000, uuids={1: "new"})
    assert rig.listed() == (16000, 8000)
    assert rig.agent.inventory is not None
    assert [card.uuid for card in rig.agent.inventory.cards] == ["u0", "u1"]
    assert "replaced" in rig.agent.inventory.cards[1].reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("others", "gone", "waiting", "size"),
    [
        pytest.param(range(7), frozenset(), (9, 7), 4200564, id="its number is a high one"),
        pytest.param(range(8), frozenset({0}), (8, None), 4718592, id="a lost card is listed next to it"),
    ],
)
def test_a_card_whose_units_do_not_fit_beside_held_numbers_waits_alone(
    others: range, gone: frozenset[int], waiting: tuple[int, int | None], size: int
) -> None:
    rig = make_rig(unit="MiB", vendor=ALIYUN)
    rig.hold(a=device_ids_of_card(0, 4))
    shown = [InventoryCard(index=index, uuid=f"U-{index}", memory_bytes=32 * GIB) for index in others]
    new = InventoryCard(index=waiting[0], minor=waiting[1], uuid="U-new", memory_bytes=32 * GIB)
    rig.agent.on_cards_change(CardsSnapshot((*shown, new), gone=gone))
    inventory = rig.agent.inventory
    assert inventory is not None
    assert [card.uuid for card in inventory.cards] == [card.uuid for card in shown]
    assert (inventory.unit.name, rig.agent.problem) == ("MiB", "")
    assert [(card.index, card.uuid) for card in inventory.left_out] == [(new.minor_number, "U-new")]
    assert f"{size} bytes" in inventory.left_out[0].reason
    assert rig.heard.reasons() == ["CardLeftOut"]


def test_a_lost_card_that_no_pod_holds_keeps_no_other_card_from_the_kubelet() -> None:
    rig = make_rig(unit="MiB", vendor=ALIYUN)
    rig.hold(a=device_ids_of_card(0, 4))
    shown = [InventoryCard(index=index, uuid=f"U-{index}", memory_bytes=32 * GIB) for index in range(9)]
    rig.agent.on_cards_change(CardsSnapshot(tuple(shown), gone=frozenset({3})))
    assert rig.agent.inventory is not None
    assert [card.index for card in rig.agent.inventory.cards] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert (rig.agent.inventory.left_out, rig.heard.reasons()) == ((), [])


CARDS = st.tuples(st.integers(1, 8), st.integers(0, 8), st.sampled_from(["", "sick", "cordoned", "smaller", "gone"]))
"""Units, how many of them pods hold, and what becomes of the card."""


@pytest.mark.slow
@given(cards=st.lists(CARDS.filter(lambda card: card[0] >= card[1]), min_size=1, max_size=4))
def test_the_kubelet_counts_what_pods_hold_and_what_is_free_on_cards_that_take_pods_and_nothing_else(
    cards: list[tuple[int, int, str]],
) -> None:
    """kube-scheduler subtracts what all pods ask for from that count, whatever became of their cards."""
    rig = make_rig()
    rig.see(*(units for units, _, _ in cards), 1)
    held = [device_ids_of_card(index, count) for index, (_, count, _) in enumerate(cards)]
    rig.hold(**{f"p{index}": ids for index, ids in enumerate(held) if ids})
    sizes = [{"gone": 0, "smaller": max(1, count - 1)}.get(trouble, units) for units, count, trouble in cards]
    rig.see(*sizes, 1, sick={index: "off the bus" for index, (*_, trouble) in enumerate(cards) if trouble == "sick"})
    rig.node(cordon=",".join(str(index) for index, (*_, trouble) in enumerate(cards) if trouble == "cordoned"))

    open_cards = (pair for pair in zip(sizes, cards, strict=True) if pair[1][2] not in ("sick", "cordoned"))
    free = 1 + sum(max(0, size - count) for size, (_, count, _) in open_cards)
    healthy = rig.healthy()
    assert set(chain.from_iterable(held)) <= set(healthy)
    assert len(healthy) == len(set(healthy)) == sum(map(len, held)) + free
