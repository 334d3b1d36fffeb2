"""The two commands against an API server, with a plugin that follows them."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ENFLAME
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig


async def run_command(name: str, kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    process = ProcessContext(argv=[*words, "--kubeconfig", str(kubeconfig)], environ={}, stdout=stdout, stderr=stderr)
    code = await asyncio.to_thread(SUBCOMMANDS[name].run, process)
    return code, stdout.getvalue(), stderr.getvalue()


async def test_a_cordon_takes_the_cards_units_from_the_node_and_an_uncordon_gives_them_back() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.until(lambda: ENFLAME.inventory_annotation in rig.node()["metadata"].get("annotations", {}), "cards")
        kubeconfig = rig.root / "kubeconfig"
        code, text, _ = await run_command("cordon-card", kubeconfig, NODE, "1")
        assert (code, text) == (0, "card 1 (GCU-1) of node node-1 cordoned: no new pods, running ones stay\n")
        await rig.until_units(32, allocatable=16)
        again = await run_command("cordon-card", kubeconfig, NODE, "GCU-1")
        assert again[:2] == (0, "card 1 (GCU-1) of node node-1 is cordoned already\n")
        code, text, _ = await run_command("uncordon-card", kubeconfig, NODE, "GCU-1")
        assert (code, text) == (0, "card 1 (GCU-1) of node node-1 uncordoned\n")
        await rig.until_units(32)
        assert ENFLAME.cordon_annotation not in rig.node()["metadata"]["annotations"]
