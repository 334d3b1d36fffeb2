import pytest

from gcushare.core.card_state import CardMode
from gcushare.core.errors import Refused
from gcushare.core.ledger import FigureDrift, Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardRequest, CardSelection
from tests.builders import GIB_UNIT, asks, asks_whole, cards, held, pod

BINPACK = POLICIES["binpack"].rank_card


def ledger_of(**nodes: tuple[int, ...]) -> Ledger:
    ledger = Ledger()
    for name, sizes in nodes.items():
        ledger.set_node(name, cards(*sizes), GIB_UNIT)
    return ledger


def test_the_manuals_four_pods() -> None:
    ledger = ledger_of(n=(16,) * 8)
    for name, units, index in [("pod-1", 4, 0), ("pod-2", 8, 0), ("pod-3", 12, 1)]:
        assert ledger.reserve(pod(name), "n", asks(units), BINPACK).grants[0].index == index
    with pytest.raises(
        Refused, match=r"needs 20 GiB in one card; best card free: 16 GiB \(card 2 of n\); total free 104 of 128 GiB"
    ):
        ledger.reserve(pod("pod-4"), "n", asks(20), BINPACK)
    assert (ledger.nodes["n"].used, ledger.nodes["n"].total) == (24, 128)


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


def test_a_whole_card_is_held_as_it_is_and_not_as_large_as_its_pods_largest() -> None:
    ledger = ledger_of(n=(16, 32, 32))
    ledger.apply(held("pair", "n", (0, 32), (1, 32), whole=True))
    node = ledger.nodes["n"]
    assert ([s.held for s in node.cards.values()], node.used) == ([16, 32, 0], 48)
    assert not node.is_unconfirmed
    ledger.apply(held("wrong", "n", (0, 4)))
    assert node.is_unconfirmed, "a second pod on a card that is held whole is too much"
    ledger.forget("uid-wrong")
    ledger.set_node("n", cards(16), GIB_UNIT)
    assert [s.held for s in node.cards.values()] == [16, 32], "of a card that is gone the record's size is all we know"


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
