"""Where the node's facts meet: what the kubelet is sent, what is published, and what people hear of it."""

from pathlib import Path

import pytest

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import InventoryCard
from gcushare.core.units import GIB
from gcushare.vendors import ALIYUN
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.nodes import encode_inventory
from tests.unit.node_agent_rig import Rig, make_rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return make_rig(tmp_path)


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


def test_auto_keeps_its_unit_while_it_fits_and_changes_it_only_when_no_one_holds_any(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, unit="auto")
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


def test_a_card_that_does_not_fit_the_unit_keeps_no_health_and_no_cordon_of_the_others_back(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, unit="0.01")
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


def test_a_card_that_was_replaced_by_one_that_does_not_fit_is_unhealthy(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, unit="0.01")
    rig.see(80, 80)
    rig.see(80, 4000, uuids={1: "new"})
    assert rig.listed() == (16000, 8000)
    assert rig.agent.inventory is not None
    assert [card.uuid for card in rig.agent.inventory.cards] == ["u0", "u1"]
    assert "replaced" in rig.agent.inventory.cards[1].reason


def test_an_inventory_of_its_own_node_that_cannot_be_read_is_said_once_and_written_again(rig: Rig) -> None:
    rig.see(16)
    garbage = '{"version":1,"unit":"1","cards":[],"x":' + "[" * 1500 + "]" * 1500 + "}"
    rig.node(inventory=garbage)
    rig.node(inventory=garbage)

    reported = [message for reason, message in rig.heard.node if reason == "InventoryUnreadable"]
    assert reported == ["the inventory annotation cannot be read: nested deeper than 32 levels; it is written again"]
    assert rig.agent.inventory is not None
    assert rig.parts.publisher.wanted == rig.agent.inventory

    rig.node(inventory=encode_inventory(rig.agent.inventory))
    rig.node(inventory=garbage)
    assert rig.heard.reasons().count("InventoryUnreadable") == 2


def test_a_card_whose_units_do_not_fit_beside_held_numbers_waits_alone(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, unit="MiB", vendor=ALIYUN)
    size = 32 * GIB
    held = [InventoryCard(index=index, uuid=f"U-{index}", memory_bytes=size) for index in range(7)]
    moved = InventoryCard(index=9, minor=7, uuid="U-new", memory_bytes=size)
    rig.agent.on_cards_change(CardsSnapshot((*held, moved)))
    inventory = rig.agent.inventory
    assert inventory is not None
    assert [card.uuid for card in inventory.cards] == [card.uuid for card in held]
    assert (inventory.unit.name, rig.agent.problem) == ("MiB", "")
    assert [(card.index, card.uuid) for card in inventory.left_out] == [(7, "U-new")]
    assert "4200564 bytes" in inventory.left_out[0].reason
    assert rig.heard.reasons() == ["CardLeftOut"]
