"""One node that carries what no one can read, and the extender that goes on serving the others."""

from __future__ import annotations

from gcushare.vendors import ENFLAME
from tests.extender_objects import node_document, pod_document
from tests.protocol.extender_rig import ExtenderRig


async def test_one_nodes_inventory_ends_and_hides_nothing_of_the_others() -> None:
    text = '{"version":1,"unit":"1","cards":[],"x":' + "[" * 1500 + "]" * 1500 + "}"
    async with ExtenderRig() as rig:
        bad = node_document("bad", 16, annotations={ENFLAME.inventory_annotation: text})
        await rig.add_nodes(node_document("good", 16), bad)
        (waiting,) = await rig.add_pods(pod_document("a", 12))

        assert (await rig.filter(waiting, ["good", "bad"]))["NodeNames"] == ["good"]
        status, metrics = await rig.get("/metrics")
        assert (status, 'gcushare_nodes_unreadable{vendor="enflame"} 1.0' in metrics) == (200, True)
        document = await rig.get_json(f"{ENFLAME.url_prefix}/inspect")
        assert "good" in [each["name"] for each in document["nodes"]]
        explained = await rig.get_json(f"{ENFLAME.url_prefix}/explain/default/a")
        assert "the inventory annotation cannot be read" in explained["unreadableNodes"]["bad"]

        # The watch too, not only the first list.
        await rig.add_nodes(node_document("late", 16))
        (another,) = await rig.add_pods(pod_document("b", 16))
        assert (await rig.filter(another, ["late", "bad"]))["NodeNames"] == ["late"]
