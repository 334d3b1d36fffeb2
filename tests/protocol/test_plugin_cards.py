"""Cards that fall sick, come back, are replaced, leave, grow or are cordoned, under running pods."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.cli.cards.cards import ask_addresses
from gcushare.cluster.card_tables import view_lines
from gcushare.core.cards import Health
from gcushare.core.units import GIB
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.node_settings import Strategy
from gcushare.wire.kubelet.device_ids import cards_of_ids
from tests.protocol.plugin_rig import RESOURCE, WHOLE, PluginRig

MIG: dict[str, object] = {"left_out": "MIG mode is on"}
SICK: dict[str, object] = {"health": "unhealthy", "reason": "fell off the bus"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "restarts"),
    [
        pytest.param({"changes": {0: SICK}}, False, id="sick"),
        pytest.param({"gone": (0,)}, True, id="lost before the plugin's start"),
        pytest.param({"changes": {0: MIG}}, True, id="left out before the plugin's start"),
        pytest.param({"changes": {0: {"memory": 8 * GIB}}}, False, id="smaller than what is held"),
    ],
)
async def test_a_card_in_trouble_takes_no_unit_of_the_others_and_its_pods_are_admitted_again(
    trouble: dict[str, Any], restarts: bool
) -> None:
    async with PluginRig(cards=(16, 16, 16, 16), plugin={"mode": GrantMode.BOTH}) as rig:
        rig.bind("held", 10, card=0)
        rig.bind_whole("whole", cards="3")
        await rig.until_recorded("held", "whole")
        if restarts:
            await rig.stop_plugin()
        rig.write_cards(**trouble)
        if restarts:
            await rig.start_plugin()
        await rig.until_allocatable(RESOURCE, 42)
        for name, card in (("b", 1), ("c", 2)):
            rig.bind(name, 16, card=card)
        await rig.until_recorded("b", "c")
        assert [rig.visible(name) for name in "bc"] == ["1", "2"]

        await rig.kubelet.restart()
        await rig.until(lambda: rig.kubelet.registrations == 2, "registered again")
        await rig.until_allocatable(RESOURCE, 42)
        for name in ("held", "whole"):
            await rig.kubelet.restart_container(rig.uid(name), "c0")
            assert rig.pod(name)["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("trouble", "restarts"),
    [
        pytest.param({"changes": {0: SICK}}, True, id="sick before the plugin's start"),
        pytest.param({"gone": (0,)}, False, id="lost"),
    ],
)
async def test_a_whole_card_that_a_pod_holds_stays_healthy_until_the_pod_ends(
    trouble: dict[str, Any], restarts: bool
) -> None:
    async with PluginRig(cards=(16, 16), plugin={"mode": GrantMode.WHOLE}, plugin_first=False) as rig:
        await rig.start_plugin()
        await rig.until_allocatable(WHOLE, 2)
        await rig.run_whole("held", cards="0")
        if restarts:
            await rig.stop_plugin()
        rig.write_cards(**trouble)
        if restarts:
            await rig.start_plugin()
        await rig.until(
            lambda: rig.published().cards[0].health is Health.UNHEALTHY or len(rig.published().cards) == 1,
            "the inventory says so",
        )
        await rig.until_allocatable(WHOLE, 2)
        await rig.delete("held")
        await rig.until_allocatable(WHOLE, 1)


async def test_what_the_kubelet_cannot_be_known_is_refused_before_registering() -> None:
    async with PluginRig(cards=(80,) * 8, memory_unit="0.001", plugin_first=False) as rig:
        await rig.start_plugin()
        await rig.event("MemoryUnitRefused")
        (text,) = rig.events("MemoryUnitRefused")
        assert "10392592 bytes of 4194304" in text
        assert "the finest unit that fits is 0.01" in text
        assert rig.kubelet.counts() == {}


async def test_cards_that_are_all_left_out_are_named_with_the_reason_wherever_the_node_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mig, unified = {"left_out": "MIG mode is on"}, {"left_out": "the driver reports no memory size for this card"}
    async with PluginRig(cards=(16, 16, 16), plugin_first=False) as rig:
        rig.write_cards({0: mig, 1: unified, 2: mig})
        await rig.start_plugin()
        await rig.event("NoCards")
        why = "cards 0,2: MIG mode is on; card 1: the driver reports no memory size for this card"
        (event,) = rig.events("NoCards")
        assert event.endswith(f"lists no card that can be shared: {why}")
        assert why in (await rig.get("/readyz"))[1]
        assert (await rig.get("/healthz"))[0] == 200, "a restart would not bring cards"
        assert why in caplog.text
        status = await rig.status()
        assert why in status["problems"]["cards"]
        assert [(card["index"], card["reason"]) for card in status["leftOut"]] == [
            (0, mig["left_out"]), (1, unified["left_out"]), (2, mig["left_out"])
        ]  # fmt: skip
        lines = view_lines(await ask_addresses([rig.url]), None, is_wide=False)
        shown = [line.plain.split()[:5] for line in lines if "not shared" in line.plain]
        assert shown == [[str(index), f"GCU-{index}", "-", "not", "shared:"] for index in range(3)]
        rig.write_cards({1: mig})
        await rig.until_units(32)


@pytest.mark.parametrize("holds", [pytest.param(True, id="pod runs"), pytest.param(False, id="no pod")])
async def test_a_cdi_file_goes_with_its_strategy_once_no_pod_needs_it(holds: bool) -> None:
    async with PluginRig(cards=(16,), strategies=(Strategy.CDI,)) as rig:
        file = rig.root / "cdi" / "gcushare-enflame.json"
        assert '"enflame.com/gcu"' in file.read_text()
        if holds:
            await rig.run("a", 4, card=0)
            assert rig.view("a").cdi_devices == ["enflame.com/gcu=0"]
        await rig.stop_plugin()
        rig.plugin_settings["device_list_strategy"] = (Strategy.ENV,)
        await rig.start_plugin()
        await rig.until_units(16)
        assert file.exists() is holds
        if holds:
            await rig.delete("a")
            await rig.until(lambda: not file.exists(), "the file is removed")


# 655,360 units on the wire.
@pytest.mark.slow
async def test_a_kubelet_built_with_a_larger_limit_has_mib_units_of_eight_cards_of_80_gib(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limit, cards = 16 << 20, (80,) * 8
    settings = {"kubelet_message_limit": limit}
    async with PluginRig(
        cards=cards, memory_unit="MiB", plugin=settings, message_limit_bytes=limit, plugin_first=False
    ) as rig:
        await rig.start_plugin()
        await rig.until_units(655_360)
        await rig.run("a", 81_920, card=7)
        held = rig.kubelet.held_ids(rig.uid("a"), "c0", RESOURCE)
        assert len(held) == 81_920
        assert cards_of_ids(held) == {7: 81_920}
    warned = [record.getMessage() for record in caplog.records if "feature gates" in record.getMessage()]
    assert len(warned) == 1
    assert "ManyUnits" in warned[0]
    assert "the node has 655360 units" in warned[0]
