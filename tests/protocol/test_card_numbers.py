"""The node's programs after a boot in which the driver numbers the cards differently, or with a broken checkpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gcushare.cards.ports import CardReport
from gcushare.cards.simulated.source import SimulatedSource
from gcushare.core.errors import DeviceError
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ALIYUN
from gcushare_playground.kubelet.checkpoint import decode_checkpoint
from gcushare_playground.kubelet.dra import ClaimRef
from tests.builders import present
from tests.protocol.claims_rig import ClaimsRig, share
from tests.protocol.plugin_rig import PluginRig


class LateSource(SimulatedSource):
    """Cards of a library that does not answer the first call."""

    answers = False

    async def list_cards(self) -> CardReport:
        if not self.answers:
            self.answers = True
            raise DeviceError("the library does not answer")
        return await super().list_cards()


def numbers(rig: ClaimsRig) -> dict[str, int]:
    """The number of each card on the Node, by uuid."""
    return {card.uuid: card.index for card in present(rig.app.observed.inventory()).cards}


@asynccontextmanager
async def prepared() -> AsyncIterator[tuple[ClaimsRig, ClaimRef]]:
    """A node of three cards: a claim was given the second, and its program has ended since."""
    async with ClaimsRig((16, 16, 16), vendor=ALIYUN) as rig:
        await rig.start()
        full = rig.allocate("full", share("card-1", 14))
        assert (await rig.kubelet.prepare(full))[full.uid].error == ""
        await rig.end_program()
        yield rig, full


async def test_a_prepared_claim_keeps_its_card_whatever_the_driver_calls_it() -> None:
    async with prepared() as (rig, full):
        rig.write_cards({index: {"uuid": uuid} for index, uuid in enumerate(("GCU-1", "GCU-2", "new"))})
        await rig.start()
        await rig.until(lambda: "new" in numbers(rig), "the cards are counted")
        assert {uuid: numbers(rig)[uuid] for uuid in ("GCU-1", "GCU-2")} == {"GCU-1": 1, "GCU-2": 2}
        again = rig.allocate("again", share("card-1", 14))
        assert "card 1 has 2 of 16 units free" in (await rig.kubelet.prepare(again))[again.uid].error
        assert (await rig.kubelet.prepare(full))[full.uid].error == ""


@pytest.mark.slow
async def test_a_prepared_claim_keeps_its_card_while_the_drivers_library_does_not_answer() -> None:
    async with prepared() as (rig, _):
        rig.write_cards({0: {"uuid": "GCU-1"}, 1: {"uuid": "GCU-0"}})
        rig.adapters = replace(rig.adapters, cards=LateSource(rig.root / "cards.json"))
        await rig.start()
        await rig.until(lambda: numbers(rig) == {"GCU-0": 0, "GCU-1": 1, "GCU-2": 2}, "the numbers are as before")


async def test_what_a_claim_was_given_counts_before_an_inventory_of_another_time() -> None:
    async with prepared() as (rig, _):
        text = rig.node()["metadata"]["annotations"][ALIYUN.inventory_annotation]
        text = text.replace("GCU-1", "GCU-x").replace("GCU-2", "GCU-1").replace("GCU-x", "GCU-2")
        rig.annotate_node(ALIYUN.inventory_annotation, text)
        await rig.start()
        await rig.until(lambda: numbers(rig) == {"GCU-0": 0, "GCU-1": 1, "GCU-2": 2}, "the numbers are as before")


@pytest.mark.parametrize("text", ["", "{", "{}"], ids=["empty", "half", "without pods"])
async def test_a_kubelet_writes_a_broken_checkpoint_again_and_the_cards_are_offered(text: str) -> None:
    """Upon a list, if an empty one. Until then a kubelet that started with such a file runs pods without devices."""
    async with PluginRig(plugin_first=False) as rig:
        file = rig.root / "device-plugins" / "kubelet_internal_checkpoint"
        file.write_text(text)
        await rig.kubelet.restart()
        rig.plugin_settings |= {"vendor": ALIYUN, "device_list_strategy": (Strategy.ENV,)}
        await rig.start_plugin()
        await rig.until_allocatable(ALIYUN.memory_resource, 8 * 16)
        assert decode_checkpoint(file.read_bytes()).registered.keys() == {ALIYUN.memory_resource}
        assert rig.problem("cards") == ""
