"""The very numbers by which nodes are ranked, and the counts that a recount puts right."""

from __future__ import annotations

import pytest

from gcushare.core.card_state import CardState
from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import CardRequest
from tests.builders import GIB_UNIT, asks, asks_whole, cards, held


def node_of(sizes: tuple[int, ...], used: int, modes: tuple[str, ...] = BOTH_MODES) -> NodeState:
    """A node whose first card has ``used`` units in use, or is held whole where it serves nothing else."""
    node = NodeState("n")
    node.set_cards(cards(*sizes), GIB_UNIT, modes)
    if used:
        node.add(held("a", "n", (0, used), whole=modes == (SERVES_WHOLE,)))
    return node


@pytest.mark.parametrize(
    ("policy", "node", "request_", "score"),
    [
        pytest.param("binpack", node_of((16, 16), 4), asks(4), 0.5625, id="next to others"),
        pytest.param("binpack", node_of((16, 16), 4), asks(12), 0.5625, id="just next to others"),
        pytest.param("binpack", node_of((16, 16), 4), asks(13), 0.03125, id="opens a card that could be given whole"),
        pytest.param("binpack", node_of((16, 16), 4, (SERVES_MEMORY,)), asks(13), 0.28125, id="opens one that not"),
        pytest.param("binpack", node_of((16, 16), 4), asks(4, 4), 0.03125 / 3, id="several cards are one sum"),
        pytest.param("binpack", node_of((16, 16), 40), asks(4), 0.25, id="no fuller than full"),
        pytest.param("binpack", node_of((16, 16), 4), asks_whole(), 0.0625, id="whole"),
        pytest.param("binpack", node_of((16, 16), 16, (SERVES_WHOLE,)), asks_whole(), 0.75, id="whole only"),
        pytest.param("binpack", node_of((16, 16), 0), asks_whole(2), 1 / 3, id="several whole, one NUMA node"),
        pytest.param("binpack", node_of((), 0), asks_whole(), 0.0, id="no cards"),
        pytest.param("spread", node_of((16, 16), 4), asks(4), 0.875, id="spread"),
        pytest.param("spread", node_of((16, 16), 40), asks(4), 0.0, id="spread, overfull"),
        pytest.param("spread", node_of((), 0), asks(4), 0.0, id="spread, no cards"),
        pytest.param("spread", node_of((16, 16), 0), asks_whole(2), 2 / 3, id="spread, several whole"),
    ],
)
def test_a_nodes_score_is_the_one_that_its_policy_states(
    policy: str, node: NodeState, request_: CardRequest, score: float
) -> None:
    assert POLICIES[policy].score_node(node, request_) == pytest.approx(score)


def test_cards_are_ranked_for_the_request_that_is_placed() -> None:
    def far_for_large(state: CardState, request: CardRequest) -> tuple[int, ...]:
        return (state.index if request.units < 8 else -state.index,)

    node = node_of((16, 16, 16), 0)
    for request, index in ((asks(4), 0), (asks(8), 2)):
        chosen = choose_cards(node, request, far_for_large)
        assert chosen is not None
        assert [state.index for state in chosen] == [index]


def test_counting_a_node_again_says_what_was_wrong_and_puts_it_right() -> None:
    node = node_of((16, 16), 4)
    node.cards[0].used = 5
    assert node.recount() == ["card 0: (5, 0, 1) counted, (4, 0, 1) held, as units, whole cards and pods"]
    node.used = 9
    assert node.recount() == [
        "(16, 12, 1, 32, 9) counted, (16, 12, 1, 32, 4) true: largest free, shared, empty cards, total, used"
    ]
    assert node.recount() == []
