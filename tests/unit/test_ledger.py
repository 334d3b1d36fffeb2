"""The ledger and its nodes: what is held, reserved, unrecorded or unknown is counted once and never given twice."""

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
from gcushare.core.ledger import FigureDrift, Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.preemption.kept_room import compute_room_left
from gcushare.core.preemption.victims import choose_victims
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held, pod

BINPACK = POLICIES["binpack"].rank_card


def ledger_of(**nodes: tuple[int, ...]) -> Ledger:
    ledger = Ledger()
    for name, sizes in nodes.items():
        ledger.set_node(name, cards(*sizes), GIB_UNIT)
    return ledger


def test_a_reservation_is_rolled_back_once_and_never_after_it_was_confirmed() -> None:
    ledger = ledger_of(n=(16, 16))
    request = CardRequest(4, 2, selection=CardSelection(limit=6))
    reserved = ledger.reserve(pod("a"), "n", request, BINPACK)
    assert (list(ledger.reserved), reserved.limit) == (["uid-a"], 12)
    assert ledger.roll_back("uid-a")
    assert not ledger.roll_back("uid-a")
    ledger.apply(ledger.reserve(pod("a"), "n", request, BINPACK))
    assert not ledger.roll_back("uid-a")
    assert ledger.assignment("uid-a") == reserved


def test_listeners_hear_once_of_each_changed_node_only() -> None:
    ledger = ledger_of(n=(16,), m=(16,))
    heard: list[str] = []
    ledger.listen(lambda node: heard.append(node.name))
    for each in (held("a", "n", (0, 4)), held("a", "n", (0, 4)), held("a", "n", (0, 3)), held("a", "m", (0, 4))):
        ledger.apply(each)
    assert heard == ["n", "n", "n", "m"]


def test_a_shortage_names_the_best_of_the_cards_that_the_pod_allows() -> None:
    ledger = ledger_of(n=(16, 8))
    request = CardRequest(12, selection=CardSelection(use=("1",)))
    with pytest.raises(Refused, match=r"among the cards that the pod allows; best card free: 8 GiB \(card 1 of n\)"):
        ledger.reserve(pod("a"), "n", request, BINPACK)


def test_a_card_is_free_shared_or_whole() -> None:
    ledger = ledger_of(n=(16, 16))
    ledger.apply(held("a", "n", (0, 4)))
    whole = ledger.reserve(pod("w"), "n", asks_whole(), BINPACK)
    node = ledger.nodes["n"]
    assert whole.grants[0].index == 1
    assert [s.mode for s in node.cards.values()] == [CardMode.SHARED, CardMode.WHOLE]
    assert (node.used, node.empty_cards, node.largest_free) == (20, 0, 12)
    with pytest.raises(Refused, match="needs 1 whole card of node n; 0 of 2 are free"):
        ledger.reserve(pod("w2"), "n", asks_whole(), BINPACK)
    ledger.forget("uid-w")
    assert node.empty_cards == 1


@pytest.mark.parametrize(
    ("modes", "fitting", "refused", "words"),
    [
        pytest.param(
            ["memory"], asks(4), asks_whole(), r"serves no whole cards: .* memory only \(--mode\)", id="memory"
        ),
        pytest.param(
            ["whole"], asks_whole(), asks(4), r"serves no card memory: .* whole cards only \(--mode\)", id="whole"
        ),
    ],
)
def test_a_node_grants_only_what_its_plugin_hands_out(
    modes: list[str], fitting: CardRequest, refused: CardRequest, words: str
) -> None:
    ledger = Ledger()
    ledger.set_node("n", cards(16, 16), GIB_UNIT, modes)
    assert not ledger.nodes["n"].fits(refused)
    with pytest.raises(Refused, match=words):
        ledger.reserve(pod("a"), "n", refused, BINPACK)
    assert ledger.reserve(pod("a"), "n", fitting, BINPACK).grants[0].index == 0
    assert ledger.nodes["n"].copy().modes == tuple(modes)


def test_a_node_that_is_counted_again_says_what_was_wrong_and_its_listeners_hear_of_it() -> None:
    ledger = ledger_of(n=(16, 16), m=(16,))
    ledger.apply(held("a", "n", (0, 4), (1, 2)))
    heard: list[NodeState] = []
    ledger.listen(heard.append)
    assert (ledger.recount_node("n"), ledger.recount_node("nowhere"), heard) == (None, None, [])
    node = ledger.nodes["n"]
    node.cards[0].used, node.cards[1].pods = 5, 3
    assert ledger.recount_node("n") == FigureDrift(
        "n",
        "card 0: (5, 0, 1) counted, (4, 0, 1) held, as units, whole cards and pods; "
        "card 1: (2, 0, 3) counted, (2, 0, 1) held, as units, whole cards and pods",
    )
    assert heard == [node]
    assert ledger.recount_node("n") is None


def unplaced(name: str, units: int) -> Assignment:
    return Assignment(pod(name), "n", (), unplaced=units)


def test_a_holder_without_a_record_is_not_drift_and_never_a_victim() -> None:
    ledger = Ledger()
    ledger.set_node("n", cards(16, 16), GIB_UNIT, unrecorded=[UnrecordedHolder(pod="d/a", units={0: 12, 1: 12})])
    (uid,) = ledger.nodes["n"].assignments
    assert ledger.find_drift(uid, None) is None
    explainer = Explainer(asks(8), priority=2_000_001_000)
    explainer.add(ledger.nodes["n"])
    assert explainer.finish().remedy is None


@pytest.mark.parametrize(("units", "largest"), [(12, 4), (16, 0), (17, 16), (2**62, 16)])
def test_units_of_a_bound_pod_whose_card_is_not_known_are_kept_on_every_card_that_could_take_it(
    units: int, largest: int
) -> None:
    ledger = ledger_of(n=(16, 16))
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
    ledger = ledger_of(n=(16,))
    ledger.apply(replace(held("low", "n", (0, 16 if whole else 8), whole=whole), assigned=True))
    ledger.apply(unplaced("a", 4))
    assert (choose_victims(ledger.nodes["n"], request_, [pod("low")]) is not None) is frees
    ledger.forget("uid-low")
    assert ledger.nodes["n"].fits(request_) is frees


@pytest.mark.parametrize(("nominee", "left"), [(asks(8), {0: 4}), (asks(13), {}), (asks_whole(), {})])
def test_a_nominee_is_placed_next_to_what_is_kept(nominee: CardRequest, left: dict[int, int]) -> None:
    ledger = ledger_of(n=(16,))
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


def test_a_request_of_nothing_fits_nowhere() -> None:
    assert not ledger_of(n=(8,)).nodes["n"].fits(asks(0))


def test_a_card_of_one_unit_can_be_given_whole() -> None:
    node = ledger_of(n=(1,)).nodes["n"]
    assert node.fits(asks_whole())
    assert node.cards[0].is_empty


def test_the_whole_of_a_card_that_is_gone_is_what_its_record_says() -> None:
    node = ledger_of(n=(8,)).nodes["n"]
    node.add(held("w", "n", (0, 8), whole=True))
    node.set_cards([card(1, 4)], GIB_UNIT)
    assert [node.cards[0].share(grant) for grant in node.assignments["uid-w"].grants] == [8]


def test_how_close_whole_cards_would_be_is_asked_of_those_that_are_free() -> None:
    groups = zip(cards(8, 8, 8), ("a", "a", ""), strict=True)
    linked = [msgspec.structs.replace(each, link_group=group) for each, group in groups]
    free, used = NodeState("free"), NodeState("used")
    for node in (free, used):
        node.set_cards(linked, GIB_UNIT)
    free.add(held("x", "free", (2, 8)))
    used.add(held("x", "used", (0, 8)))
    score = POLICIES["spread"].score_node
    assert score(free, asks_whole(2)) > score(used, asks_whole(2))


def test_a_card_that_a_pod_has_whole_has_no_room_until_it_goes() -> None:
    node = ledger_of(n=(8,)).nodes["n"]
    node.add(held("w", "n", (0, 8), whole=True))
    assert node.cards[0].room_without() == 0
    node.set_cards(cards(16), GIB_UNIT)
    assert node.cards[0].room_without() == 0, "it grew beyond what the record says"
    assert node.cards[0].room_without(8, 1) == 16


def test_a_node_that_is_gone_and_comes_back_serves_what_it_served() -> None:
    node = NodeState("node-1")
    node.set_cards(cards(8), GIB_UNIT, (SERVES_WHOLE,))
    node.add(held("x", "node-1", (0, 8), whole=True))
    node.drop_cards()
    assert not node.cards[0].serves(asks(4))
    assert node.cards[0].serves(asks_whole())
    assert node.copy().name == "node-1"
