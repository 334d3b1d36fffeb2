"""Granted beside really used, as the plugin serves it: what the alert on pods that take too much is made of."""

from __future__ import annotations

from gcushare.core.units import GIB
from gcushare.device_plugin.planning import Reserve
from gcushare.doctor.figures import Figures, parse_figures
from tests.protocol.plugin_rig import PluginRig


async def figures(rig: PluginRig) -> Figures:
    return parse_figures((await rig.get("/metrics"))[1])


async def test_every_pod_is_told_with_its_bytes_of_each_card_until_it_ends() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0)
        rig.bind("b", 2, 1, card=1)
        await rig.until_recorded("a", "b")
        found = await figures(rig)
        name = "gcushare_pod_granted_bytes"
        assert found.sum(name, pod_namespace="default", pod_name="a", card="0") == 4 * GIB
        assert found.sum(name, pod_namespace="default", pod_name="b", card="1") == 3 * GIB
        assert found.sum(name) == found.sum("gcushare_card_granted_bytes") == 7 * GIB
        await rig.delete("b")
        await rig.until(lambda: len(rig.app.observed.book.entries) == 1, "the plugin has seen its end")
        assert (await figures(rig)).sum(name) == 4 * GIB


async def test_a_cards_memory_and_what_is_kept_back_of_it_are_told_in_bytes() -> None:
    async with PluginRig(cards=(16,), plugin_first=False, plugin={"reserve": Reserve(bytes=GIB)}) as rig:
        await rig.start_plugin()
        await rig.until_units(15)
        found = await figures(rig)
        assert found.sum("gcushare_card_memory_bytes", card="0") == 16 * GIB
        assert found.sum("gcushare_card_reserved_bytes", card="0") == GIB
