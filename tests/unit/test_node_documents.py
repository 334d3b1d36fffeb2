import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import (
    BOTH_MODES,
    Closure,
    Health,
    Inventory,
    InventoryCard,
    LeftOutCard,
    UnrecordedHolder,
)
from gcushare.core.errors import RemoteContractError
from gcushare.core.units import GIB, MEMORY_UNITS, parse_memory_unit
from gcushare.vendors import ENFLAME
from gcushare.wire.nodes import MAX_UNRECORDED, decode_inventory, encode_inventory, node_cards
from tests.builders import card

CARDS = st.builds(
    InventoryCard,
    index=st.integers(0, 15),
    uuid=st.text(max_size=20),
    memory_bytes=st.integers(0, 1 << 40),
    model=st.text(max_size=10),
    numa_node=st.none() | st.integers(0, 7),
    limit_problem=st.text(max_size=9),
    units=st.integers(0, 8_836 * 2),
    reserved_units=st.integers(0, 100),
    health=st.sampled_from(Health),
    reason=st.text(max_size=20),
    cordoned=st.booleans(),
    closures=st.lists(
        st.builds(Closure, use=st.sampled_from(BOTH_MODES), pod=st.text(max_size=9), until=st.integers(0, 2**40)),
        max_size=2,
    ).map(tuple),
)
HOLDERS = st.builds(
    UnrecordedHolder,
    pod=st.text(max_size=20),
    units=st.dictionaries(st.integers(0, 15), st.integers(0, 10**6)),
    whole=st.lists(st.integers(0, 15), unique=True).map(lambda cards: tuple(sorted(cards))),
)
INVENTORIES = st.builds(
    Inventory,
    unit=st.sampled_from(MEMORY_UNITS),
    cards=st.lists(CARDS, max_size=8, unique_by=lambda card: card.index).map(
        lambda cards: tuple(sorted(cards, key=lambda card: card.index))
    ),
    driver=st.text(max_size=10),
    left_out=st.lists(st.builds(LeftOutCard, index=st.integers(0, 9), uuid=st.text(), reason=st.text())).map(tuple),
    unrecorded=st.lists(HOLDERS, max_size=3, unique_by=lambda holder: holder.pod).map(
        lambda holders: tuple(sorted(holders, key=lambda holder: holder.pod))
    ),
)


def card_of(index: int, units: int) -> dict[str, object]:
    return {"index": index, "uuid": f"u{index}", "memory": 1, "units": units}


def counted(memory: str, count: str) -> dict[str, object]:
    return {ENFLAME.memory_resource: memory, ENFLAME.count_resource: count}


def two_cards(*, cordon: str | None = None) -> dict[str, str]:
    inventory = Inventory(
        unit=parse_memory_unit("1"),
        cards=tuple(
            InventoryCard(index=index, uuid=f"GCU-{index}", memory_bytes=16 * GIB, units=16) for index in range(2)
        ),
    )
    annotations = {ENFLAME.inventory_annotation: encode_inventory(inventory)}
    return annotations if cordon is None else {**annotations, ENFLAME.cordon_annotation: cordon}


@pytest.mark.slow
@given(INVENTORIES)
def test_an_inventory_survives_the_way_through_the_annotation(inventory: Inventory) -> None:
    assert decode_inventory(encode_inventory(inventory)) == inventory


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "version 2; this program knows 1"),
        ({"unit": "GB"}, "memory unit 'GB' is not known"),
        ({"cards": "many"}, "cannot be read"),
        ({"cards": [{"index": 0, "uuid": "a", "memory": 1, "units": 1}] * 2}, "names cards twice"),
        ({"cards": [{"index": 0, "uuid": "a", "memory": 1, "units": -1}]}, r">= 0 - at `\$\.cards\[0\]\.units`"),
        ({"cards": [{"index": 16, "uuid": "a", "memory": 1, "units": 1}]}, r"<= 15 - at `\$\.cards\[0\]\.index`"),
        ({"cards": [{"index": 0, "uuid": "a", "memory": 1, "units": 10**400}]}, r"at `\$\.cards\[0\]\.units`"),
        ({"cards": [card_of(0, 3_958_496)]}, "beyond a node's limits"),
        ({"cards": [card_of(0, 3_000_000), card_of(1, 2_000_000)]}, "beyond a node's limits: 2 cards with 5000000"),
        ({"cards": [card_of(index % 16, 1) for index in range(17)]}, "length <= 16"),
        ({"leftOut": [{"index": 0, "uuid": "", "reason": ""}] * 1025}, "length <= 1024"),
        ({"cards": [{"index": 0, "uuid": "a", "memory": 1, "units": 1, "health": "Odd"}]}, "Invalid enum value 'Odd'"),
        ({"unrecorded": [{"pod": "x", "units": {"-1": 4}}]}, r"Expected .*unrecorded\[0\]"),
        ({"unrecorded": [{"pod": "x", "units": {"0": -4}}]}, r"Expected .*unrecorded\[0\]"),
        ({"unrecorded": [{"pod": "x", "units": {"0": 10**9}}]}, r"Expected .*unrecorded\[0\]"),
        ({"unrecorded": [{"pod": "x", "units": {}, "whole": [-1]}]}, r"Expected .*unrecorded\[0\]"),
        ({"unrecorded": [{"pod": "x", "units": {}}] * (MAX_UNRECORDED + 1)}, f"length <= {MAX_UNRECORDED}"),
    ],
)
def test_a_document_that_cannot_be_trusted_is_refused(change: dict[str, object], why: str) -> None:
    document = {"version": 1, "unit": "GiB", "cards": [], **change}
    with pytest.raises(RemoteContractError, match=why):
        decode_inventory(json.dumps(document))


def test_whole_cards_alone_are_not_bound_by_what_the_kubelet_is_sent_of_memory_units() -> None:
    text = json.dumps({"version": 1, "unit": "0.001", "cards": [card_of(7, 48_000)], "modes": ["whole"]})
    assert decode_inventory(text).total_units == 48_000


def test_fields_of_a_newer_plugin_are_skipped() -> None:
    assert decode_inventory('{"version":1,"unit":"GiB","cards":[],"colour":"red"}').cards == ()


@pytest.mark.parametrize(
    ("words", "is_cordoned"), [("1", True), ("GCU-1", True), (" 1 , 7", True), ("GCU-1,GCU-1", True), ("", False)]
)
def test_a_card_is_cordoned_by_index_or_uuid(words: str, is_cordoned: bool) -> None:
    found = node_cards(ENFLAME, two_cards(cordon=words), {})
    assert found is not None
    assert [card.is_usable for card in found.cards] == [True, not is_cordoned]


@pytest.mark.parametrize("count", ["8", "8k"])
def test_a_node_without_inventory_is_divided_equally_as_upstream_does(count: str) -> None:
    found = node_cards(ENFLAME, {}, counted("128", count))
    assert found is not None
    assert ([card.units for card in found.cards], found.unit) == ([16] * 8, None)


@pytest.mark.parametrize("capacity", [{}, counted("0", "8"), {"cpu": "4"}])
def test_a_node_without_cards_is_none_of_ours(capacity: dict[str, object]) -> None:
    assert node_cards(ENFLAME, {}, capacity) is None


@pytest.mark.parametrize(
    ("memory", "count", "named"),
    [(str(2**63 - 1), "8", f"memory {2**63 - 1}"), ("4", "1000000000", "count 1000000000")],
)
def test_what_another_system_claims_counts_within_reason(memory: str, count: str, named: str) -> None:
    with pytest.raises(RemoteContractError, match=f"gcu-{named}.* is not accepted"):
        node_cards(ENFLAME, {}, counted(memory, count))


def test_a_plugin_of_before_is_read_as_it_was() -> None:
    text = encode_inventory(Inventory(unit=parse_memory_unit("1"), cards=(card(0), card(1))))
    assert "closed" not in text
    assert "unrecorded" not in text
