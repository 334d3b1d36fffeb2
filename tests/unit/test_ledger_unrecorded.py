"""What is held without a record of ours, or before one is written, is no one else's to be given."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from gcushare.core.assignments import Assignment
from gcushare.core.card_state import CardMode
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, Closure, UnrecordedHolder
from gcushare.core.errors import Refused
from gcushare.core.explain.explanation import Explainer
from gcushare.core.explain.reason_text import summarise
from gcushare.core.explain.verdicts import Verdict, evaluate
from gcushare.core.ledger import Ledger
from gcushare.core.placement import POLICIES
from gcushare.core.preemption.kept_room import compute_room_left
from gcushare.core.preemption.victims import choose_victims
from gcushare.core.requests import CardRequest
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held, pod

BINPACK = POLICIES["binpack"].rank_card


def unplaced(name: str, units: int) -> Assignment:
    return Assignment(pod(name), "n", (), unplaced=units)


def node_with(*holders: UnrecordedHolder, sizes: tuple[int, ...] = (16, 16)) -> Ledger:
    ledger = Ledger()
    ledger.set_node("n", cards(*sizes), GIB_UNIT, unrecorded=holders)
    return ledger


def test_what_a_node_says_of_holders_without_records_counts_as_any_pods_cards_do() -> None:
    ledger = node_with(UnrecordedHolder(pod="d/a", units={0: 12}), UnrecordedHolder(pod="odd", units={}, whole=(1,)))
    node = ledger.nodes["n"]
    assert [(state.used, state.mode) for state in node.cards.values()] == [(12, CardMode.SHARED), (16, CardMode.WHOLE)]
    assert (node.used, node.largest_free, node.empty_cards) == (28, 4, 0)
    assert sorted(str(each.pod) for each in node.assignments.values()) == ["/odd", "d/a"]
    assert all(ledger.assignment(uid) is each for uid, each in node.assignments.items())
    with pytest.raises(Refused):
        ledger.reserve(pod("b"), "n", asks(5), BINPACK)


def test_a_holder_without_a_record_is_not_drift_and_never_a_victim() -> None:
    ledger = node_with(UnrecordedHolder(pod="d/a", units={0: 12, 1: 12}))
    (uid,) = ledger.nodes["n"].assignments
    assert ledger.find_drift(uid, None) is None
    explainer = Explainer(asks(8), priority=2_000_001_000)
    explainer.add(ledger.nodes["n"])
    assert explainer.finish().remedy is None


def test_a_report_of_one_pods_cards_opens_nothing_that_is_kept_for_another() -> None:
    ledger = node_with(UnrecordedHolder(pod="default/b", units={0: 1}))
    ledger.apply(unplaced("a", 12))
    ledger.apply(unplaced("b", 16))
    assert ledger.nodes["n"].largest_free == 4


@pytest.mark.parametrize(("units", "largest"), [(12, 4), (16, 0), (17, 16), (2**62, 16)])
def test_units_of_a_bound_pod_whose_card_is_not_known_are_kept_on_every_card_that_could_take_it(
    units: int, largest: int
) -> None:
    ledger = node_with()
    ledger.apply(unplaced("a", units))
    node = ledger.nodes["n"]
    assert (node.largest_free, node.used) == (largest, 0), "more than a card has is given to no one"
    assert node.fits(asks_whole()) is (units > 16)
    if largest < 16:
        assert evaluate(node, asks(largest + 1)) is Verdict.UNCONFIRMED
        with pytest.raises(Refused, match=f"{units} GiB are kept free on each card"):
            ledger.reserve(pod("b"), "n", asks(largest + 1), BINPACK)
    ledger.apply(held("a", "n", (1, min(units, 16))))
    assert node.largest_free == 16, "once its card is known the others are open"
    ledger.forget("uid-a")
    assert node.largest_free == 16


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("request_", "frees"), [(asks(12), True), (asks(13), False), (asks(16), False), (asks_whole(), False)]
)
def test_no_one_ends_for_units_that_stay_kept_whichever_pod_goes(
    request_: CardRequest, frees: bool, whole: bool
) -> None:
    ledger = node_with(sizes=(16,))
    ledger.apply(replace(held("low", "n", (0, 16 if whole else 8), whole=whole), assigned=True))
    ledger.apply(unplaced("a", 4))
    assert (choose_victims(ledger.nodes["n"], request_, [pod("low")]) is not None) is frees
    ledger.forget("uid-low")
    assert ledger.nodes["n"].fits(request_) is frees


@pytest.mark.parametrize(("nominee", "left"), [(asks(8), {0: 4}), (asks(13), {}), (asks_whole(), {})])
def test_a_nominee_is_placed_next_to_what_is_kept(nominee: CardRequest, left: dict[int, int]) -> None:
    ledger = node_with(sizes=(16,))
    ledger.apply(unplaced("a", 4))
    assert compute_room_left(ledger.nodes["n"], [nominee], []) == left


@pytest.mark.parametrize(
    ("use", "closed", "open_"),
    [
        pytest.param(SERVES_WHOLE, asks_whole(), asks(16), id="to pods that want it whole"),
        pytest.param(SERVES_MEMORY, asks(1), asks_whole(), id="to pods that share"),
    ],
)
def test_a_card_that_is_closed_to_one_use_is_given_to_the_other_only_and_says_until_when(
    use: str, closed: CardRequest, open_: CardRequest
) -> None:
    ledger = Ledger()
    until = Closure(use=use, pod="d/gone", until=1_800_000_000)
    ledger.set_node("n", [msgspec.structs.replace(card(0), closures=(until,))], GIB_UNIT)
    node = ledger.nodes["n"]
    assert (node.fits(closed), node.fits(open_)) == (False, True)
    assert (evaluate(node, closed), evaluate(node, open_)) == (Verdict.CLOSED, Verdict.FITS)
    explainer = Explainer(closed)
    explainer.add(node)
    reported = summarise(explainer.finish())
    assert "card 0 of n is closed to" in reported
    assert "until 2027-01-15T08:00:00Z at the latest, for containers of d/gone" in reported
    assert choose_victims(node, closed, []) is None
