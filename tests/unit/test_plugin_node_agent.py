"""Where the node's facts meet: what the kubelet is sent, what is published, and what people hear of it."""

from pathlib import Path

import pytest

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Closure, UnrecordedHolder
from gcushare.core.nodes import PodRef
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.device_plugin.pods.unrecorded import PATIENCE_S
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.nodes import encode_inventory
from tests.unit.node_agent_rig import Rig, make_rig
from tests.unit.plugin_pods import pod


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return make_rig(tmp_path)


def test_nothing_is_offered_before_there_are_cards(rig: Rig) -> None:
    rig.agent.on_cards_change(CardsSnapshot((), problem="efml: libefml.so is not there"))
    assert not rig.agent.offered.is_set()
    assert rig.heard.node == [("NoCards", "efml: libefml.so is not there")]
    rig.see(16)
    assert rig.agent.offered.is_set()
    assert rig.agent.problem == ""


def test_a_source_that_fails_for_a_while_takes_no_card_away(rig: Rig) -> None:
    rig.see(16, 16)
    rig.agent.on_cards_change(CardsSnapshot((), problem="the library does not answer"))
    assert rig.listed() == (32, 32)
    assert rig.agent.problem == "the library does not answer"


def test_a_sick_card_is_reported_to_the_node_and_to_the_pods_that_hold_it(rig: Rig) -> None:
    rig.see(16, 16)
    rig.agent.pod_applied(pod("a", 4, card=0))
    rig.agent.pod_applied(pod("b", 4, card=1))
    rig.hold(a=device_ids_of_card(0, 4), b=device_ids_of_card(1, 4))
    rig.see(16, 16, sick={1: "lost"})
    assert rig.listed() == (32, 16)
    assert rig.heard.pods == [("b", "CardUnhealthy", "card 1 (u1) is unhealthy: lost")]
    rig.see(16, 16)
    assert rig.listed() == (32, 32)
    assert rig.heard.reasons() == ["CardUnhealthy", "CardRecovered"]


def test_a_replaced_card_is_another_card(rig: Rig) -> None:
    rig.see(16)
    rig.see(16, uuids={0: "new"})
    assert rig.heard.node == [("CardGone", "card 0 (u0) is gone or was replaced")]
    assert rig.agent.inventory is not None
    assert rig.agent.inventory.cards[0].uuid == "new"


def test_a_cordon_closes_what_no_one_holds_once_it_is_known_who_holds_what(rig: Rig) -> None:
    rig.see(16, 16)
    rig.node(cordon="0")
    assert rig.listed() == (32, 32), "not known yet who holds what"
    rig.hold(a=device_ids_of_card(0, 4))
    assert rig.listed() == (32, 20)
    rig.hold()
    assert rig.listed() == (32, 16)
    rig.node()
    assert rig.listed() == (32, 32)
    assert rig.heard.node == [("CardCordon", "card 0 is cordoned: no new pods"), ("CardCordon", "card 0 is uncordoned")]


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


def test_containers_of_another_plugin_are_explained_once_and_again_when_they_come_back(rig: Rig) -> None:
    rig.see(16)
    rig.hold(a=["GCU-7-_-0"])
    rig.hold(a=["GCU-7-_-0"])
    assert rig.heard.reasons() == ["ForeignDeviceIds"]
    assert rig.agent.foreign_containers == 1
    rig.hold()
    assert rig.agent.foreign_containers == 0
    rig.hold(a=["GCU-7-_-0"])
    assert rig.heard.reasons() == ["ForeignDeviceIds"] * 2


def test_a_corrected_record_is_reported_to_its_pod(rig: Rig) -> None:
    ref = PodRef("u", "d", "a", "", 0)
    rig.agent.on_record_written(RecordWrite(pod=ref, annotations={}, cards=(1,), assigned=True, corrected_from=(0,)))
    assert rig.heard.pods == [
        ("a", "CardCorrected", "the record said card 0, the kubelet gave card 1; the record was corrected")
    ]


def test_what_no_record_reports_is_published_with_the_inventory(rig: Rig) -> None:
    rig.see(16, 16)
    rig.hold(stranger=device_ids_of_card(1, 12))
    rig.parts.store.find_unrecorded(-PATIENCE_S)
    assert rig.agent.inventory is not None
    assert rig.agent.describe(rig.agent.inventory).unrecorded == (UnrecordedHolder(pod="d/stranger", units={1: 12}),)
    rig.hold(stranger=device_ids_of_card(1, 12))
    wanted = rig.parts.publisher.wanted
    assert wanted is not None
    assert [(holder.pod, dict(holder.units)) for holder in wanted.unrecorded] == [("d/stranger", {1: 12})]
    rig.agent.pod_applied(pod("stranger", 12))
    assert rig.parts.publisher.wanted == rig.agent.inventory, "its own record tells from now on"


def test_a_card_closed_for_a_pod_that_is_gone_is_published_and_opened_again(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, mode=GrantMode.BOTH)
    rig.see(16, 16)
    rig.agent.pod_applied(pod("a", 4, card=0))
    rig.hold(a=device_ids_of_card(0, 4))
    rig.agent.pod_deleted(pod("a", 4, card=0))
    wanted = rig.parts.publisher.wanted
    assert wanted is not None
    assert [card.closures for card in wanted.cards] == [(Closure(use="whole", pod="d/a"),), ()]
    rig.parts.store.end_gone((), 0.0)
    rig.parts.store.end_gone((), 1_000.0)
    rig.hold()
    wanted = rig.parts.publisher.wanted
    assert wanted is not None
    assert [card.closures for card in wanted.cards] == [(), ()]


def test_an_inventory_of_its_own_node_that_cannot_be_read_is_said_once_and_written_again(rig: Rig) -> None:
    rig.see(16)
    garbage = '{"version":1,"unit":"1","cards":[],"x":' + "[" * 1500
    rig.node(inventory=garbage)
    rig.node(inventory=garbage)

    reported = [message for reason, message in rig.heard.node if reason == "InventoryUnreadable"]
    assert reported == ["the inventory annotation cannot be read: nested deeper than 32 levels; it is written again"]
    assert rig.agent.inventory is not None
    assert rig.parts.publisher.wanted == rig.agent.inventory

    rig.node(inventory=encode_inventory(rig.agent.inventory))
    rig.node(inventory=garbage)
    assert rig.heard.reasons().count("InventoryUnreadable") == 2


def test_a_node_without_an_inventory_is_no_news(rig: Rig) -> None:
    rig.see(16)
    rig.node()
    assert "InventoryUnreadable" not in rig.heard.reasons()
