import json
from dataclasses import replace

import msgspec
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
    ],
)
def test_a_document_that_cannot_be_trusted_is_refused(change: dict[str, object], why: str) -> None:
    document = {"version": 1, "unit": "GiB", "cards": [], **change}
    with pytest.raises(RemoteContractError, match=why):
        decode_inventory(json.dumps(document))


def test_whole_cards_alone_are_not_bound_by_what_the_kubelet_is_sent_of_memory_units() -> None:
    text = json.dumps({"version": 1, "unit": "0.001", "cards": [card_of(7, 48_000)], "modes": ["whole"]})
    assert decode_inventory(text).total_units == 48_000


@pytest.mark.parametrize("levels", [33, 990, 1500, 100_000])
def test_an_inventory_is_refused_for_its_depth_wherever_it_is(levels: int) -> None:
    deep = "[" * levels + "]" * levels
    for text in (f'{{"version":1,"unit":"GiB","cards":[],"x":{deep}}}', f'{{"version":1,"unit":"GiB","cards":{deep}}}'):
        with pytest.raises(RemoteContractError, match="the inventory annotation cannot be read"):
            decode_inventory(text)


def test_memory_that_another_system_claims_counts_within_reason() -> None:
    with pytest.raises(RemoteContractError, match="gcu-memory 9223372036854775807 is not accepted"):
        node_cards(ENFLAME, {}, {"enflame.com/gcu-memory": str(2**63 - 1), "enflame.com/gcu-count": "8"})


def test_fields_of_a_newer_plugin_are_skipped() -> None:
    assert decode_inventory('{"version":1,"unit":"GiB","cards":[],"colour":"red"}').cards == ()


@pytest.mark.parametrize("words", ["1", "GCU-1", " 1 , 7", "GCU-1,GCU-1"])
def test_a_card_is_cordoned_by_index_or_uuid(words: str) -> None:
    found = node_cards(ENFLAME, two_cards(cordon=words), {})
    assert found is not None
    assert [card.is_usable for card in found.cards] == [True, False]


def test_an_empty_cordon_uncordons() -> None:
    found = node_cards(ENFLAME, two_cards(cordon=""), {})
    assert found is not None
    assert all(card.is_usable for card in found.cards)


def test_a_node_without_inventory_is_divided_equally_as_upstream_does() -> None:
    found = node_cards(ENFLAME, {}, {"enflame.com/gcu-memory": "128", "enflame.com/gcu-count": "8"})
    assert found is not None
    assert [card.units for card in found.cards] == [16] * 8
    assert found.unit is None


def test_a_count_in_thousands_is_that_many_cards() -> None:
    found = node_cards(ENFLAME, {}, {"enflame.com/gcu-memory": "128", "enflame.com/gcu-count": "8k"})
    assert found is not None
    assert [card.units for card in found.cards] == [16] * 8


@pytest.mark.parametrize("capacity", [{}, {"enflame.com/gcu-memory": "0", "enflame.com/gcu-count": "8"}, {"cpu": "4"}])
def test_a_node_without_cards_is_none_of_ours(capacity: dict[str, object]) -> None:
    assert node_cards(ENFLAME, {}, capacity) is None


def test_an_absurd_count_is_rejected() -> None:
    with pytest.raises(RemoteContractError, match="gcu-count 1000000000 is not accepted"):
        node_cards(ENFLAME, {}, {"enflame.com/gcu-memory": "4", "enflame.com/gcu-count": "1000000000"})


def test_closures_and_holders_survive_the_way_through_the_annotation() -> None:
    closures = (Closure(use="whole", pod="d/a", until=1_800_000_000), Closure(use="memory", pod="d/b"))
    holders = (UnrecordedHolder(pod="d/c", units={0: 4}, whole=(1,)), UnrecordedHolder(pod="uid", units={1: 2}))
    plain = Inventory(unit=parse_memory_unit("1"), cards=(card(0), card(1)))
    full = replace(plain, cards=(msgspec.structs.replace(card(0), closures=closures), card(1)), unrecorded=holders)
    assert decode_inventory(encode_inventory(full)) == full
    assert "closed" not in encode_inventory(plain)
    assert "unrecorded" not in encode_inventory(plain), "a plugin of before is read as it was"


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param(UnrecordedHolder(pod="x", units={-1: 4}), id="a card below zero"),
        pytest.param(UnrecordedHolder(pod="x", units={0: -4}), id="units below zero"),
        pytest.param(UnrecordedHolder(pod="x", units={0: 10**9}), id="more than any card has"),
        pytest.param(UnrecordedHolder(pod="x", units={}, whole=(-1,)), id="a whole card below zero"),
    ],
)
def test_holders_with_impossible_numbers_are_refused(holder: UnrecordedHolder) -> None:
    text = encode_inventory(Inventory(unit=parse_memory_unit("1"), cards=(card(0),), unrecorded=(holder,)))
    with pytest.raises(RemoteContractError, match=r"Expected .*unrecorded\[0\]"):
        decode_inventory(text)


def test_more_holders_than_a_plugin_writes_are_refused() -> None:
    holders = tuple(UnrecordedHolder(pod=f"d/{n}", units={0: 1}) for n in range(MAX_UNRECORDED + 1))
    text = encode_inventory(Inventory(unit=parse_memory_unit("1"), cards=(card(0),), unrecorded=holders))
    with pytest.raises(RemoteContractError, match=f"length <= {MAX_UNRECORDED}"):
        decode_inventory(text)
