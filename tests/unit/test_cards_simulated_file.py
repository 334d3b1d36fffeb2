"""The file of simulated cards, read strictly."""

from __future__ import annotations

import json

import pytest

from gcushare.cards.ports import HealthReading
from gcushare.cards.simulated.file import parse_simulated_cards, parse_size
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import ConfigError

GIB = 1 << 30


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (17179869184, 16 * GIB),
        ("17179869184", 16 * GIB),
        ("16GiB", 16 * GIB),
        ("16 G", 16 * GIB),
        ("1.5GiB", 3 * GIB // 2),
        ("2TiB", 2048 * GIB),
        ("0", 0),
    ],
)
def test_sizes_are_exact_bytes(value: object, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    "value", [-1, True, None, 1.5, "", "GiB", "-1GiB", "16 gib", "1e3", "0.3KiB", "16GiBs", "١٦GiB"]
)
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="16GiB"):
        parse_size(value)


def test_the_short_form_makes_equal_cards() -> None:
    cards = parse_simulated_cards("{count: 3, memory: 16GiB, model: S60}", "file").report().cards
    assert cards == tuple(
        Card(index=index, uuid=f"simulated-{index}", memory_bytes=16 * GIB, model="S60") for index in range(3)
    )


def test_every_key_of_a_card_arrives() -> None:
    identity = "index: 4, uuid: GCU-4, memory: 32GiB, model: S60, serial: SN4, pci: '0000:3a:00.0', numa: 1"
    figures = "used: 3GiB, temperature: 91.5, power: 120, utilization: 50, fan: 30, performance_state: 2, link_group: a"
    modes = "compute_mode: default, ecc: false, mig: true, processes: {17: 1GiB}, health: unhealthy, reason: too hot"
    file = parse_simulated_cards(f"{{driver: 1.2.3, cards: [{{{identity}, {figures}, {modes}}}]}}", "file")
    entry = file.cards[0]
    assert file.driver == "1.2.3"
    assert entry.card == Card(
        index=4, uuid="GCU-4", memory_bytes=32 * GIB, model="S60", serial="SN4", pci_address="0000:3a:00.0",
        numa_node=1, link_group="a",
    )  # fmt: skip
    assert entry.reading == HealthReading(healthy=False, reason="too hot", conclusive=True)
    assert entry.use == CardUse(
        memory_used_bytes=3 * GIB, temperature_celsius=91.5, power_watts=120.0, utilization_percent=50.0,
        fan_percent=30.0, performance_state=2, compute_mode="default", ecc=False, mig=True, processes={17: GIB},
    )  # fmt: skip


def test_cards_differ_and_stand_by_index_with_defaults_of_the_file() -> None:
    text = json.dumps({"memory": "8GiB", "cards": [{"index": 1}, {"index": 0, "memory": "16GiB"}]})
    cards = parse_simulated_cards(text, "file").report().cards
    assert [(card.index, card.memory_bytes) for card in cards] == [(0, 16 * GIB), (1, 8 * GIB)]


def test_a_left_out_card_is_reported_with_its_reason() -> None:
    report = parse_simulated_cards("cards: [{memory: 1GiB, left_out: MIG mode is on}, {memory: 1GiB}]", "f").report()
    assert [card.index for card in report.cards] == [1]
    assert report.left_out == (LeftOutCard(index=0, uuid="simulated-0", reason="MIG mode is on"),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "f: Expected `object`, got `null`", id="empty"),
        pytest.param("cards: [", "f is neither YAML nor JSON", id="half written"),
        pytest.param("{}", "f: it needs the key cards, or count and memory, and not both", id="neither form"),
        pytest.param("{count: 2, memory: 1, cards: []}", "count and memory, and not both", id="both"),
        pytest.param("{count: 2, memroy: 1}", "f: Object contains unknown field `memroy`", id="misspelt key"),
        pytest.param("{count: 2}", "f: no memory is given - at `$.cards[0]`", id="no size"),
        pytest.param("{count: 99999999, memory: 1}", "<= 1024 - at `$.count`", id="huge count"),
        pytest.param("cards: [5]", "f: Expected `object`, got `int` - at `$.cards[0]`", id="a card is no map"),
        pytest.param("cards: [{memory: 16 gib}]", "16GiB, 16GB or 512MiB, of at most 8T - at", id="size"),
        pytest.param("cards: [{memory: 1, health: ok}]", "at `$.cards[0].health`", id="health"),
        pytest.param("cards: [{memory: 1}, {memory: 1, index: 0}]", "index 0 is another card's too", id="index twice"),
        pytest.param("cards: [{memory: 1, uuid: a}, {memory: 1, uuid: a}]", "uuid 'a' is another", id="uuid twice"),
        pytest.param("driver: 2001-99-99\ncards: []", "f is neither YAML nor JSON", id="a date that is none"),
    ],
)
def test_a_wrong_file_is_refused_with_file_and_key(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_simulated_cards(text, "f")
    assert problem in str(caught.value)


def test_aliases_that_would_fill_the_memory_stay_a_short_message() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(ConfigError) as caught:
        parse_simulated_cards("\n".join([*lines, "cards: *a11"]), "f")
    assert len(str(caught.value)) < 10_000
