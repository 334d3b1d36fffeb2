"""Sums that follow changes are the sums of a look at every node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.fitting import ChangeLog
from gcushare.core.ledger import Ledger
from gcushare.core.totals import ClusterTotals, UnitTotals
from gcushare.core.units import parse_memory_unit
from tests.builders import GIB_UNIT, card, cards, held

steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "set fine", "remove", "hold", "forget", "ask"]),
        st.integers(0, 3),
        st.integers(0, 2),
        st.integers(1, 16),
    ),
    max_size=30,
)


@given(steps)
def test_totals_that_follow_changes_are_those_of_every_node(changes: list[tuple[str, int, int, int]]) -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    for kind, node, index, units in changes:
        match kind:
            case "set":
                ledger.set_node(f"node-{node}", cards(*[units] * index), GIB_UNIT)
            case "set fine":
                ledger.set_node(f"node-{node}", cards(*[units] * index), parse_memory_unit("MiB"))
            case "remove":
                ledger.remove_node(f"node-{node}")
            case "hold":
                ledger.apply(held(f"p{units}", f"node-{node}", (index, units)))
            case "forget":
                ledger.forget(f"uid-p{units}")
            case _:
                totals.by_unit()

    known = [node for node in ledger.nodes.values() if node.known]
    found = totals.by_unit()
    assert {unit: (each.nodes, each.total, each.granted, each.pods) for unit, each in found.items()} == {
        unit: (
            len(nodes),
            sum(node.total for node in nodes),
            sum(node.used for node in nodes),
            sum(len(node.assignments) for node in nodes),
        )
        for unit in {node.unit.name for node in known if node.unit}
        for nodes in [[node for node in known if node.unit and node.unit.name == unit]]
    }
    for unit, each in found.items():
        free = [s.grantable for node in known if node.unit and node.unit.name == unit for s in node.cards.values()]
        assert each.free == sum(free)


def test_fragmentation_is_the_share_of_free_units_in_cards_too_small_for_the_request() -> None:
    ledger = Ledger()
    totals = ClusterTotals(ledger, ChangeLog(ledger))
    ledger.set_node("node-1", [card(0, 16), card(1, 4), card(2, 12), card(3, 64, sick=True)], GIB_UNIT)
    found = totals.by_unit()["GiB"]

    assert [found.fragmentation(size) for size in (1, 5, 13, 17)] == [0.0, 4 / 32, 16 / 32, 1.0]
    assert found.sizes() == [1, 2, 4, 8, 16]


def test_nothing_free_is_not_fragmented() -> None:
    assert UnitTotals().fragmentation(4) == 0.0
    assert UnitTotals().sizes() == []
