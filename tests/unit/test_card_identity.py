"""Cards that get other numbers, are lost, come back or are replaced: each is what its containers were given."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gcushare.core.requests import CardRequest
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.builders import asks, asks_whole
from tests.unit.renumbered_node import RenumberedNode

REQUESTS = [asks(2), asks(9), asks(14), asks(5, 2), asks_whole(), asks_whole(2)]


def test_a_full_card_is_not_given_again_after_the_driver_numbered_the_cards_differently() -> None:
    node = RenumberedNode(ALIYUN, [("U-a", 16), ("U-b", 16), ("U-c", 16)])
    assert node.run("on-a", asks(2))
    assert node.run("on-b", asks(15))
    del node.machine[0]
    node.start()
    assert node.problems() == []
    cards = {card.uuid: (card.index, card.minor_number) for card in node.rig.agent.inventory.cards}  # type: ignore[union-attr]
    assert cards["U-b"] == (1, 0)
    assert node.run("new", asks(14))
    assert node.problems() == []
    assert list(node.given(node.kubelet["new"])) == ["U-c"]


def test_a_number_stays_while_the_api_server_does_not_say_which_pods_there_are() -> None:
    """After a boot the kubelet shows nothing of a pod before it has admitted it again."""
    node = RenumberedNode(ALIYUN, [("U-a", 16), ("U-b", 16), ("U-c", 16)])
    assert node.run("on-a", asks(2))
    assert node.run("on-b", asks(15))
    del node.machine[0]
    booting, node.kubelet, node.ended = node.kubelet, {}, list(node.kubelet.values())
    node.start(alone=True)
    node.kubelet, node.ended = booting, []
    node.see_kubelet()
    assert node.problems() == []
    assert node.run("new", asks(14))
    assert list(node.given(node.kubelet["new"])) == ["U-c"]


def test_a_number_stays_while_the_drivers_library_does_not_answer() -> None:
    node = RenumberedNode(ALIYUN, [("U-a", 16), ("U-b", 16)])
    assert node.run("on-a", asks(2))
    assert node.run("on-b", asks(15))
    node.machine.reverse()
    node.start(silent=True)
    assert node.problems() == []


class Renumbering(RuleBasedStateMachine):
    vendor: Vendor = ALIYUN

    @initialize(cards=st.integers(1, 4))
    def begin(self, cards: int) -> None:
        self.made = cards
        machine = [(f"U-{number}", 16) for number in range(cards)]
        self.node = RenumberedNode(self.vendor, machine)
        self.number = 0

    @rule(request=st.sampled_from(REQUESTS))
    def run(self, request: CardRequest) -> None:
        self.number += 1
        self.node.run(f"p{self.number}", request)

    @rule(units=st.sampled_from([3, 10]))
    def bind(self, units: int) -> None:
        self.number += 1
        self.node.bind(f"b{self.number}", units)

    @precondition(lambda self: self.node.pods)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.node.end(data.draw(st.sampled_from(sorted(self.node.pods))))

    @rule(data=st.data(), deleted=st.booleans(), restarts=st.booleans(), alone=st.booleans(), silent=st.booleans())
    def change_cards(self, data: st.DataObject, deleted: bool, restarts: bool, alone: bool, silent: bool) -> None:
        machine = data.draw(st.permutations(self.node.machine))
        match data.draw(st.sampled_from(["order", "lose", "add", "replace", "return"])):
            case "lose" if machine:
                machine.pop()
            case "add" if len(machine) < 6:
                self.made += 1
                machine.insert(0, (f"U-{self.made}", 16))
            case "replace" if machine:
                self.made += 1
                machine[0] = (f"U-{self.made}", 16)
            case "return":
                machine += [card for card in self.node.sizes.items() if card not in machine][:1]
        self.node.machine = machine
        if restarts:
            if deleted and not any(name not in self.node.kubelet for name in self.node.pods):
                self.node.forget_node()
            self.node.start(alone=alone, silent=silent)
        else:
            self.node.poll()

    @invariant()
    def each_card_is_what_its_containers_were_given(self) -> None:
        if hasattr(self, "node"):
            assert self.node.problems() == []


class OfMinorNumbers(Renumbering):
    vendor = ENFLAME


Renumbering.TestCase.settings = OfMinorNumbers.TestCase.settings = settings(stateful_step_count=20, deadline=None)
TestGrantsThatFollowTheCard = Renumbering.TestCase
TestGrantsOfMinorNumbers = OfMinorNumbers.TestCase
