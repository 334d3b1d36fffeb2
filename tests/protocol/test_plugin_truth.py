"""The kubelet's own record as the plugin meets it on bad days, and what stands in the pods' records afterwards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gcushare.wire.documents.plugin_status import PLUGIN_STATUS
from gcushare_playground.kubelet import PodResourcesMode
from tests.e2e.assets import machine_address
from tests.protocol.plugin_rig import PluginRig, backwards


async def bind_equal_pods(rig: PluginRig) -> list[str]:
    """Four equal pods on two cards, admitted in the order in which the plugin does not expect."""
    names = [f"p{number}" for number in range(4)]
    rig.kubelet.faults.admission_open.clear()
    for number, name in enumerate(names):
        rig.bind(name, 4, card=number // 2)
    await rig.kubelet.gather_pods(4)
    rig.kubelet.faults.admission_open.set()
    return names


async def until_true(rig: PluginRig, names: Sequence[str]) -> None:
    await rig.until_recorded(*names)
    await rig.until(
        lambda: all(rig.record(name)[0] == rig.visible(name) for name in names),
        f"records that are true: {[(rig.record(name), rig.visible(name)) for name in names]}",
    )


@pytest.mark.slow
async def test_where_podresources_does_not_answer_the_checkpoint_makes_the_records_true() -> None:
    async with PluginRig(order=backwards) as rig:
        rig.kubelet.faults.podresources = PodResourcesMode.HANG
        await until_true(rig, await bind_equal_pods(rig))
        assert rig.problem("kubeletRecord") == ""


async def test_a_kubelet_without_podresources_is_read_by_its_checkpoint() -> None:
    async with PluginRig(order=backwards, podresources=False) as rig:
        await until_true(rig, await bind_equal_pods(rig))


async def test_a_checkpoint_that_is_no_json_is_named_in_readiness() -> None:
    async with PluginRig(podresources=False, plugin_first=False) as rig:
        (rig.root / "device-plugins" / "kubelet_internal_checkpoint").write_text("{broken")
        await rig.start_plugin()
        await rig.until(lambda: "kubelet_internal_checkpoint cannot be read" in rig.problem("kubeletRecord"), "why")
        await rig.until_units(128)
        await rig.run("a", 4, card=2)
        await rig.until(lambda: rig.problem("kubeletRecord") == "", "the kubelet has written a good one")


async def test_while_the_api_server_is_away_pods_already_seen_get_their_cards_and_records_follow() -> None:
    async with PluginRig() as rig:
        rig.kubelet.faults.admission_open.clear()
        rig.bind("a", 4, card=6)
        rig.bind("b", 2, card=7)
        await rig.kubelet.gather_pods(2)
        await rig.until(lambda: len(rig.app.observed.store.entries) == 2, "the plugin knows both")
        await rig.api.stop()
        rig.kubelet.faults.admission_open.set()
        await rig.until(lambda: rig.app.observed.reconciler.writer.failed_writes > 0, "writes that fail")
        await rig.until(lambda: (rig.visible("a"), rig.visible("b")) == ("6", "7"), "both run on their cards")
        await rig.api.start()
        await rig.until_recorded("a", "b")
        await rig.until(lambda: rig.problem("node") == "", "the node is written")


@pytest.mark.parametrize("caller", ["of its own machine", "of the network"])
async def test_uids_of_pods_are_told_to_callers_of_the_same_machine_alone(caller: str) -> None:
    address = "127.0.0.1" if caller == "of its own machine" else machine_address()
    async with PluginRig(plugin={"listen_address": address}) as rig:
        await rig.run("a", 4, card=1)
        answer = (await rig.get("/status"))[1]
        (pod,) = PLUGIN_STATUS.read(answer).pods
        assert (pod.pod, pod.cards) == ("default/a", (1,))
        uid = rig.uid("a")
        assert (pod.uid, uid in answer) == ((uid, True) if caller == "of its own machine" else ("", False))
