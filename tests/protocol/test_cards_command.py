"""``gcushare cards``, of a plugin here and through the API server, and the commands that cordon a card of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gcushare.cli.cards.cards import is_loopback
from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.core.units import GIB
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.vendors import ENFLAME
from tests.extender_objects import a_pod, as_whole
from tests.fake_proc import make_proc
from tests.protocol.commands import Ran, run_command
from tests.protocol.inspect_rig import Cluster, a_node, cluster, plugin_pod
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig
from tests.unit.card_views import busy, card, status

NOWHERE = Path("/nowhere")
"""A /proc without processes: whose they are is not known."""


async def cards(
    *argv: str, environ: Mapping[str, str] | None = None, proc: Path = NOWHERE, columns: int | None = None
) -> Ran:
    """Run the command: on a pipe, or on a terminal of so many columns."""
    main = partial(SUBCOMMANDS["cards"].run, proc=proc)
    return await run_command(main, *argv, environ=environ or {}, columns=columns)


async def document_of(*argv: str, **options: Any) -> Any:
    """The document of ``-o json``."""
    ran = await cards(*argv, "-o", "json", **options)
    assert ran.code == 0, ran.err
    return ran.document


USE = {"used": "9GiB", "temperature": 61, "power": 142.5, "utilization": 87, "processes": {"4242": "5GiB", "7": "1GiB"}}
USE |= {"persistence": True, "power_limit": 250, "cuda": "12.4"}
USE |= {"process_utilization": {7: 5, 4242: 80}, "process_names": {4242: "python3"}}
USE |= {"fan": 30, "performance_state": 2, "compute_mode": "exclusive-process", "ecc": True, "mig": False}


@pytest.fixture
async def rig() -> AsyncIterator[PluginRig]:
    """A plugin with two cards, a pod on the first, and readings of it."""
    async with PluginRig(cards=(16, 16)) as found:
        found.write_cards({0: USE})
        await found.run("a", 4, 2, card=0)
        await found.until(
            lambda: any(use.memory_used_bytes for use in found.app.observed.cards().uses.values()), "use is read"
        )
        yield found


async def test_the_plugin_of_this_machine_reports_cards_use_and_pods(rig: PluginRig) -> None:
    ran = await cards("--plugin", rig.url)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].startswith("node-1; enflame; group a10; driver simulated; plugin ")
    rows = [" ".join(line.split()) for line in ran.lines]
    assert "0 GCU-0 Simulated shared, healthy 6/16 9.0/16.0 61°C 142W 87%" in rows
    assert any(row.startswith("0 default/a 6 - - c0 4, c1 2") for row in rows)
    processes = "processes, their pod unknown: pid 7 (1.0 GB, 5% busy), pid 4242 python3 (5.0 GB, 80% busy)"
    assert f"0 - - - - {processes}" in rows
    wide = await cards("--plugin", rig.url, "-o", "wide", columns=120)
    assert "30%  P2     on   off  exclusive-process  on           250W         12.4" in wide.out


async def test_a_process_is_shown_with_the_pod_of_its_control_group(rig: PluginRig, tmp_path: Path) -> None:
    uid = rig.uid("a")
    proc = make_proc(tmp_path, {4242: f"0::/kubepods/burstable/pod{uid}/c\n", 7: "0::/init.scope\n"})
    document = await document_of("--plugin", rig.url, proc=proc)
    first = document["nodes"][0]["cards"][0]
    assert first["holders"][0]["processes"] == [
        {"pid": 4242, "bytes": 5 * GIB, "utilizationPercent": 80.0, "name": "python3"}
    ]
    assert first["holders"][0]["utilizationPercent"] == 80.0
    assert first["processes"] == [{"pid": 7, "bytes": GIB, "utilizationPercent": 5.0, "name": ""}]


async def test_a_card_that_a_pod_has_whole_is_shown_so_before_and_after_its_admission() -> None:
    async with PluginRig(cards=(16, 16), plugin={"mode": GrantMode.BOTH}) as rig:
        await rig.run_whole("now", cards="0")
        rig.app.observed.store.pod_applied(a_pod("later", None, whole=1, node="node-1", record=as_whole(1)))
        (node,) = (await document_of("--plugin", rig.url))["nodes"]
    assert node["status"]["modes"] == ["memory", "whole"]
    assert [(card["mode"], card["grantedUnits"]) for card in node["cards"]] == [("whole", 16), ("whole", 0)]
    holders = [holder for card in node["cards"] for holder in card["holders"]]
    assert [(each["pod"], each["units"], each["whole"], each["state"]) for each in holders] == [
        ("default/now", 16, True, "holds"),
        ("default/later", 16, True, "waits"),
    ]


async def test_the_status_has_the_mode_the_holders_and_the_use_of_every_card(rig: PluginRig) -> None:
    document = msgspec.json.decode((await rig.get("/status"))[1])
    first, second = document["cards"]
    assert (first["mode"], first["holders"]) == ("shared", ["default/a"])
    assert first["use"] == {
        "memoryUsedBytes": 9 * GIB,
        "temperatureCelsius": 61.0,
        "powerWatts": 142.5,
        "utilizationPercent": 87.0,
        "fanPercent": 30.0,
        "performanceState": 2,
        "computeMode": "exclusive-process",
        "ecc": True,
        "mig": False,
        "persistence": True,
        "powerLimitWatts": 250.0,
        "cudaVersion": "12.4",
        "processes": {"7": GIB, "4242": 5 * GIB},
        "processUtilization": {"7": 5.0, "4242": 80.0},
        "processNames": {"4242": "python3"},
    }
    assert (second["mode"], second["holders"], second["use"]["memoryUsedBytes"]) == ("free", [], None)
    assert (document["pods"][0]["cards"], document["pods"][0]["whole"]) == ([0], False)


def test_any_certificate_is_accepted_at_the_loopback_alone() -> None:
    hosts = ("127.0.0.1", "[::1]", "localhost", "10.0.0.1", "localhost.example", "127.0.0.1.example")
    assert [host for host in hosts if is_loopback(f"https://{host}:1")] == ["127.0.0.1", "[::1]", "localhost"]


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


PLUGIN = "gcushare-device-plugin-x7"
PROXY = "/api/v1/namespaces/kube-system/pods/"


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes; the plugin of the first answers."""
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16), a_node("node-2", 16), plugin_pod(PLUGIN, "node-1"))
        found.front.backends[f"pods/http:{PLUGIN}:32767"] = msgspec.json.encode(busy()).decode()
        yield found


async def test_a_real_plugin_is_reached_through_the_api_server(seen: Cluster) -> None:
    async with PluginRig(cards=(16,)) as rig:
        await rig.run("a", 4, card=0)
        seen.front.backends[f"pods/http:{PLUGIN}:32767"] = rig.url
        ran = await cards("node-1", environ=seen.environ())
        assert (ran.code, ran.err) == (0, "")
        assert ran.lines[0].endswith(f", pod kube-system/{PLUGIN}")
        assert any(line.split()[1:3] == ["default/a", "4"] for line in ran.lines)
        assert seen.front.proxied == [f"{PROXY}http:{PLUGIN}:32767/proxy/status"]


async def test_both_vendors_plugins_of_a_node_are_shown_and_no_other_nodes(seen: Cluster) -> None:
    seen.put(plugin_pod("gpushare-device-plugin-y1", "node-1"), plugin_pod("gcushare-device-plugin-z", "node-2"))
    other = status(card(0, model="A100"), vendor="aliyun", unit="GiB")
    seen.front.backends["pods/http:gpushare-device-plugin-y1:32767"] = msgspec.json.encode(other).decode()
    document = await document_of("node-1", environ=seen.environ())
    assert [(node["status"]["vendor"], node["origin"]) for node in document["nodes"]] == [
        ("aliyun", "pod kube-system/gpushare-device-plugin-y1"),
        ("enflame", f"pod kube-system/{PLUGIN}"),
    ]
    assert not any("device-plugin-z" in path for path in seen.front.proxied)
