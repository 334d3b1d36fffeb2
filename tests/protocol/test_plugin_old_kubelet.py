"""A kubelet 1.18, which picks any free ids: it never calls GetPreferredAllocation and has no podresources API v1."""

from __future__ import annotations

from typing import Any

from tests.protocol.plugin_rig import PluginRig

KUBELET_1_18: dict[str, Any] = {"version": "v1.18.20", "asks_preferred": False, "podresources": False}


async def test_on_several_cards_it_mixes_ids_which_is_refused_and_reported() -> None:
    async with PluginRig(cards=(16, 16), **KUBELET_1_18) as rig:
        assert "the kubelet is v1.18.20 and mixes the units of this node's 2 cards" in await rig.event("KubeletTooOld")
        rig.bind("a", 12, card=0)
        await rig.until(lambda: rig.pod("a")["status"].get("phase") == "Failed", "the kubelet fails the pod")
        assert "the kubelet asked for no preference" in rig.pod("a")["status"]["message"]
        assert rig.app.observed.store.held_units() == {}


async def test_on_one_card_it_works() -> None:
    async with PluginRig(cards=(16,), **KUBELET_1_18) as rig:
        await rig.run("a", 12, card=0)
        assert rig.visible("a") == "0"
        assert rig.events("KubeletTooOld") == []
