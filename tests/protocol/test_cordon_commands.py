"""The two commands against an API server, with a plugin that follows them."""

from __future__ import annotations

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.vendors import ENFLAME
from tests.protocol.commands import run_command
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig


async def test_a_cordon_takes_the_cards_units_from_the_node_and_an_uncordon_gives_them_back() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.until(lambda: ENFLAME.inventory_annotation in rig.node()["metadata"].get("annotations", {}), "cards")
        kubeconfig = {"KUBECONFIG": str(rig.root / "kubeconfig")}
        cordon, uncordon = (SUBCOMMANDS[f"{word}-card"].run for word in ("cordon", "uncordon"))
        ran = await run_command(cordon, NODE, "1", environ=kubeconfig)
        assert ran[:2] == (0, "card 1 (GCU-1) of node node-1 cordoned: no new pods, running ones stay\n")
        await rig.until_units(32, allocatable=16)
        ran = await run_command(cordon, NODE, "GCU-1", environ=kubeconfig)
        assert ran[:2] == (0, "card 1 (GCU-1) of node node-1 is cordoned already\n")
        ran = await run_command(uncordon, NODE, "GCU-1", environ=kubeconfig)
        assert ran[:2] == (0, "card 1 (GCU-1) of node node-1 uncordoned\n")
        await rig.until_units(32)
        assert ENFLAME.cordon_annotation not in rig.node()["metadata"]["annotations"]
