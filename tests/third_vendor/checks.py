"""What works for a vendor as soon as it is registered. ``tests/protocol/test_third_vendor.py`` runs it where one is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts.vendors import write

from gcushare.cards.selection import SourceOptions, open_source
from gcushare.cli.kubectl.help_text import Names
from gcushare.core.units import GIB
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.annotations import encode_record, record_keys
from tests.api_objects import an_object
from tests.charts import containers, load_objects, needs_helm, of_kind, pod_specs, render, render_text
from tests.extender_objects import node_document, on_card, pod_document
from tests.protocol.extender_rig import ExtenderRig, extender_settings
from tests.protocol.inspect_rig import SERVICE, a_node, bound_pod, cluster
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig, container

ACME = VENDORS_BY_NAME["acme"]
DEPLOY = Path(os.environ["THIRD_VENDOR_DEPLOY"])
CHART = "gcushare-{0}/build-and-deploy/gcushare-{0}-chart"


async def test_the_extender_filters_binds_and_shows_its_pods_in_its_words() -> None:
    async with ExtenderRig(extender_settings(vendors=(ACME,))) as rig:
        await rig.add_nodes(node_document("node-1", 16, vendor=ACME))
        pod = await rig.schedule("a", 5, ["node-1"], vendor=ACME)
        assert pod["spec"]["nodeName"] == "node-1"
        assert pod["metadata"]["annotations"]["acme.example/npu-index"] == "0"
        (large,) = await rig.add_pods(pod_document("b", 12, vendor=ACME))
        answer = await rig.filter(large, ["node-1"])
        assert answer["FailedNodes"]["node-1"].startswith("insufficient NPU memory in one card")
        (node,) = (await rig.get_json("/npushare-scheduler/inspect"))["nodes"]
        assert (node["totalNPU"], node["usedNPU"], node["devices"][0]["pods"][0]["usedNPU"]) == (16, 5, 5)


async def test_the_kubelet_gets_its_units_and_a_container_its_variables() -> None:
    async with PluginRig(cards=(16, 16), memory_unit="GiB", plugin_first=False, plugin={"vendor": ACME}) as rig:
        await rig.start_plugin()
        await rig.until_allocatable(ACME.memory_resource, 32)
        spec = {"nodeName": NODE, "containers": [container("c0", 4, ACME.memory_resource)]}
        record = encode_record(ACME, on_card(1, 4))
        rig.api.registry.put(an_object("Pod", "a", metadata={"annotations": record}, spec=spec))
        await rig.until(lambda: rig.annotation("a", ACME.record.assigned) == "true", "its record says it was assigned")
        seen = rig.view("a")
        assert (seen.environment["ACME_VISIBLE_DEVICES"], seen.environment["ACME_NPU_INDEX"]) == ("GCU-1", "1")
        assert seen.environment[CONTAINER_BYTES] == str(4 * GIB)
        await rig.until(lambda: ACME.inventory_annotation in rig.node()["metadata"]["annotations"], "its inventory")


async def test_kubectl_inspect_shows_it_by_the_extender_or_without(tmp_path: Path) -> None:
    async with cluster(tmp_path, names=Names(ACME)) as seen:
        seen.put(a_node("node-1", 16, 16, vendor=ACME), bound_pod("a", "node-1", 1, 6, vendor=ACME))
        ran = await seen.call()
        assert ran.code == 0, ran.err
        assert "NPU Memory(GB)" in ran.lines[0]
        assert ran.lines[1].split()[2:5] == ["0/16", "6/16", "6/32"]
        pod = {"name": "a", "namespace": "default", "uid": "u", "createTime": "", "usedNPU": 7}
        device = {"id": 1, "totalNPU": 16, "usedNPU": 7, "availableNPU": 9, "pods": [pod]}
        node = {"name": "node-1", "totalNPU": 32, "usedNPU": 7, "availableNPU": 25, "devices": [device]}
        seen.front.backends[SERVICE] = json.dumps({"nodes": [node]})
        ran = await seen.call("--source", "extender")
        assert "7/16" in ran.out, ran.err


async def test_its_library_is_opened_in_a_process_of_its_own() -> None:
    source = open_source(SourceOptions(cards="auto", libraries=("acmeml=/opt/libacmeml.so",), prefer="acmeml"))
    report = await source.list_cards()
    assert (source.name, [card.uuid for card in report.cards]) == ("acmeml (/opt/libacmeml.so)", ["NPU-0", "NPU-1"])
    await source.close()


def test_every_program_accepts_its_name() -> None:
    for program in ("gcushare.device_plugin", "gcushare.scheduler_extender"):
        assert "acme" in run(program, "--vendor", "acme", "--print-config")
    assert "acme" in run("gcushare.config_manager", "apply", "--help")
    assert "acme" in run("gcushare", "demo", "--help")


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_helm
def test_the_charts_take_its_name_after_make_vendors() -> None:
    write(DEPLOY)
    plugin, extender = DEPLOY / CHART.format("device-plugin"), DEPLOY / CHART.format("scheduler-extender")
    objects = render(plugin, sets={"vendor": "acme", "acmeml.hostPath": "/opt/libacmeml.so"})
    (daemon_set,) = of_kind(objects, "DaemonSet")
    assert daemon_set["metadata"]["name"] == "gcushare-device-plugin-acme"
    spec = daemon_set["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"acme.example/npushare": "true", "kubernetes.io/os": "linux"}
    (main,) = containers(spec)
    assert {"--vendor=acme", "--memory-unit=GiB", "--card-library=acmeml=/opt/libacmeml.so"} <= set(main["args"])
    assert {"name": "ACME_VISIBLE_DEVICES", "value": "all"} in main["env"]
    admission = render_text(
        extender, sets={"vendor": "acme", "admission.pods.maxUnits.acme": "16", "wholeCards": "true"}
    )
    assert all(f"'{key}'" in admission for key in record_keys(ACME))
    assert f"string(16 * variables.cards) + ' {ACME.memory_resource}" in admission
    specs = pod_specs(load_objects(admission)).values()
    assert any("--vendor=acme" in each.get("args", []) for spec in specs for each in containers(spec))
    everything = render(DEPLOY / "gcushare", sets={"global.vendor": "both"})
    names = {each["metadata"]["name"] for each in of_kind(everything, "DaemonSet")}
    assert {"gcushare-device-plugin", "gcushare-device-plugin-aliyun", "gcushare-device-plugin-acme"} <= names
