"""What people, probes and alerts see of a running plugin: status, health, metrics; and how its traces are removed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.core.units import GIB
from gcushare.device_plugin.__main__ import main
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.device_plugin.reporting.resources import describe
from gcushare.device_plugin.reporting.status_text import render_status
from gcushare.node.cdi import CdiSpecFile
from gcushare.node.node_settings import Reserve, Strategy
from gcushare.vendors import ENFLAME
from tests.builders import present
from tests.fake_proc import FakeProc
from tests.protocol.commands import Ran, run_command
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig


async def run_plugin(rig: PluginRig, *words: str, node: str = NODE) -> Ran:
    """Run the real command, as a shell next to the plugin would."""
    server = present(rig.program.server)
    argv = [*words, "--listen-address", "127.0.0.1", "--listen-port", str(server.port), "--node-name", node]
    argv += ["--kubelet-dir", str(rig.root), "--cdi-dir", str(rig.root / "cdi")]
    return await run_command(main, *argv, environ={"KUBECONFIG": str(rig.root / "kubeconfig")})


async def test_status_prints_cards_and_pods_and_succeeds_when_all_is_well() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("a", 4, card=1)
        code, text, _ = await run_plugin(rig, "--status")
        assert "No problem" in text
        assert re.search(r"^1 +GCU-1 +Simulated +shared, healthy +4/16 ", text, re.MULTILINE)
        assert re.search(r"^1 +default/a +4 ", text, re.MULTILINE)
        assert code == 0


async def test_readiness_asks_the_plugins_own_socket() -> None:
    async with PluginRig() as rig:
        assert (await rig.get("/readyz"))[0] == 200
        socket = rig.root / "device-plugins" / "enflamegcushare.sock"
        socket.unlink()
        code, text = await rig.get("/readyz")
        assert code == 503
        assert json.loads(text)["checks"]["memory socket"]["reason"].startswith(f"{socket} does not answer")
        assert (await rig.get("/healthz"))[0] == 200


async def test_metrics_count_calls_refusals_requests_and_units() -> None:
    async with PluginRig(cards=(16, 2)) as rig:
        await rig.run("a", 4, card=0)
        rig.bind("b", 14, card=0)
        await rig.until(lambda: rig.pod("b")["status"].get("phase") == "Failed", "the second pod is refused")
        _, text = await rig.get("/metrics")
        assert 'gcushare_plugin_call_seconds_count{call="Allocate",outcome="ok"} 1.0' in text
        assert 'gcushare_card_granted_units{card="0",model="Simulated",node="node-1",uuid="GCU-0"' in text
        assert 'gcushare_plugin_call_seconds_count{call="GetPreferredAllocation",outcome="Refused"} 1.0' in text
        for call, times in (("GetPreferredAllocation", 1.0), ("Allocate", 0.0)):
            assert f'gcushare_plugin_failed_calls_total{{call="{call}",node="node-1",vendor="enflame"}} {times}' in text
        assert 'gcushare_plugin_api_requests_total{code="200",resource="pods",verb="patch"} 1.0' in text
        assert (
            'gcushare_plugin_registered{node="node-1",resource="enflame.com/gcu-memory",vendor="enflame"} 1.0' in text
        )


async def test_a_call_that_no_kubelet_makes_is_answered_with_a_status() -> None:
    async with PluginRig() as rig:
        address = f"unix:{rig.root / 'device-plugins' / 'enflamegcushare.sock'}"
        async with grpc.aio.insecure_channel(address) as channel:
            allocate = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await allocate(b"\x0a\xff")
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert await channel.unary_unary("/v1beta1.DevicePlugin/PreStartContainer")(b"") == b""


async def test_remove_from_node_is_refused_while_the_plugin_runs() -> None:
    async with PluginRig(strategies=(Strategy.CDI,)) as rig:
        code, _, why = await run_plugin(rig, "--remove-from-node")
        assert code == 1
        assert "the plugin still serves" in why
        assert rig.node()["metadata"]["annotations"]


async def test_remove_from_node_takes_back_what_the_plugin_wrote_and_may_be_repeated() -> None:
    async with PluginRig(strategies=(Strategy.CDI,)) as rig:
        rig.annotate_node(ENFLAME.cordon_annotation, "1")
        await rig.until(lambda: ENFLAME.count_resource in rig.node()["status"]["capacity"], "the card count")
        await rig.stop_plugin()
        code, text, why = await run_plugin(rig, "--remove-from-node")
        assert (code, why) == (0, "")
        assert f"{rig.root / 'cdi' / 'gcushare-enflame.json'} removed" in text
        assert ENFLAME.count_resource not in rig.node()["status"]["capacity"]
        assert rig.node()["metadata"]["annotations"] == {ENFLAME.cordon_annotation: "1"}
        again = await run_plugin(rig, "--remove-from-node")
        assert again[0] == 0
        assert f"{rig.root / 'cdi' / 'gcushare-enflame.json'} was not there" in again[1]


async def test_remove_from_a_node_that_left_the_cluster_still_cleans_the_machine() -> None:
    async with PluginRig(strategies=(Strategy.CDI,)) as rig:
        await rig.stop_plugin()
        code, text, _ = await run_plugin(rig, "--remove-from-node", node="gone")
        assert code == 0
        assert not CdiSpecFile(rig.root / "cdi", ENFLAME).path.exists()
        assert text.splitlines()[-1] == "node gone is not in the cluster any more: nothing to remove from it"


async def test_the_removal_does_the_local_part_when_the_api_server_is_away() -> None:
    async with PluginRig(strategies=(Strategy.CDI,)) as rig:
        await rig.stop_plugin()
        await rig.api.stop()
        code, text, why = await run_plugin(rig, "--remove-from-node")
        assert code == 75
        assert "gcushare-enflame.json removed" in text
        assert "nothing was sent" in why


async def test_cards_and_pods_are_reported_in_bytes_and_without_the_flag_nothing_of_what_pods_use() -> None:
    async with PluginRig(cards=(16, 16), plugin_first=False, plugin={"reserve": Reserve(bytes=GIB)}) as rig:
        await rig.start_plugin()
        await rig.until_units(30)
        rig.bind("a", 4, card=0)
        rig.bind("b", 2, 1, card=1)
        await rig.until_recorded("a", "b")
        _used(rig, {0: {11: GIB}})
        found = await rig.figures()
        assert found.sum("gcushare_card_memory_bytes", card="0") == 16 * GIB
        assert found.sum("gcushare_card_reserved_bytes", card="0") == GIB
        name = "gcushare_pod_granted_bytes"
        assert found.sum(name, pod_namespace="default", pod_name="a", card="0") == 4 * GIB
        assert found.sum(name, pod_namespace="default", pod_name="b", card="1") == 3 * GIB
        assert found.sum(name) == found.sum("gcushare_card_granted_bytes") == 7 * GIB
        document = await rig.status()
        assert (document["podUse"], document["pods"][0]["usedByCard"]) == (None, None)
        assert "gcushare_pod_memory_used_bytes" not in (await rig.get("/metrics"))[1]
        await rig.delete("b")
        await rig.until(lambda: len(rig.app.observed.store.entries) == 1, "the plugin has seen its end")
        assert (await rig.figures()).sum(name) == 4 * GIB


def _used(rig: PluginRig, by_card: Mapping[int, Mapping[int, int]]) -> None:
    """Put processes on cards: bytes by number."""
    rig.write_cards({index: {"processes": dict(processes)} for index, processes in by_card.items()})


async def test_what_pods_use_is_reported_by_pod_and_card_with_what_belongs_to_no_one(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    async with PluginRig(
        cards=(16, 16), plugin={"pod_use": True, "proc_root": proc.root, "mode": GrantMode.BOTH}
    ) as rig:
        rig.bind("a", 4, card=0)
        rig.bind("b", 2, card=0)
        rig.bind_whole("w", cards="1")
        await rig.until_recorded("a", "b", "w")
        for pid, name in ((11, "a"), (12, "a"), (13, "b"), (21, "w")):
            proc.start_in_pod(pid, rig.uid(name))
        proc.start(99, "0::/system.slice/sshd.service\n")
        shared = {11: 3 * GIB, 12: 2 * GIB, 13: GIB, 99: GIB // 2, 98: 5}
        sampled = {"processes": shared, "process_utilization": {11: 30.5, 12: 20}}
        rig.write_cards({0: sampled, 1: {"processes": {21: 9 * GIB, 12: GIB}}})
        used, no_ones = "gcushare_pod_memory_used_bytes", "gcushare_card_memory_unattributed_bytes"
        found = await rig.until_figures(lambda found: found.sum(no_ones) > 0)
        assert found.sum(used, pod_namespace="default", pod_name="a", card="0") == 5 * GIB
        assert found.sum(used, pod_name="b", card="0") == GIB
        assert found.sum(used, pod_name="w", card="1") == 9 * GIB
        granted, busy = "gcushare_pod_memory_granted_bytes", "gcushare_pod_utilization_percent"
        assert [found.sum(granted, pod_name=name) for name in ("a", "b", "w")] == [4 * GIB, 2 * GIB, 16 * GIB]
        by_a = [found.sum(name, pod_name="a", card="1") for name in (used, granted)]
        assert by_a == [GIB, 0], "a card that it does not hold"
        assert found.sum(busy, card="0", pod_name="a", pod_namespace="default") == 50.5
        assert f'{busy}{{card="1"' not in (await rig.get("/metrics"))[1]
        assert found.sum(no_ones, card="0", uuid="GCU-0") == GIB // 2 + 5
        assert found.sum(no_ones, card="1") == 0
        document = await rig.status()
        pods = {pod["pod"]: pod["usedByCard"] for pod in document["pods"]}
        assert pods == {"default/a": {"0": 5 * GIB, "1": GIB}, "default/b": {"0": GIB}, "default/w": {"1": 9 * GIB}}
        by_pod = {pod["pod"]: pod["utilizationByCard"] for pod in document["pods"]}
        assert by_pod == {"default/a": {"0": 50.5}, "default/b": {"0": 0.0}, "default/w": {}}
        assert [card["unattributedBytes"] for card in document["cards"]] == [GIB // 2 + 5, 0]
        assert document["podUse"] == ""
        proc.end(11)  # a process that ended while its driver still lists it
        await rig.until_figures(lambda found: found.sum(used, pod_name="a") == 3 * GIB)
        await rig.delete("b")
        await rig.until(lambda: len(rig.app.observed.store.entries) == 2, "the plugin has seen its end")
        assert 'pod_name="b"' not in (await rig.get("/metrics"))[1]


async def test_without_the_hosts_process_ids_nothing_is_reported_and_the_status_says_why(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc", namespace="pid:[4026532000]")
    async with PluginRig(cards=(16,), plugin={"pod_use": True, "proc_root": proc.root}) as rig:
        _used(rig, {0: {11: GIB}})
        reconciler = present(rig.app.observed.pod_use)
        await rig.until(lambda: reconciler.problem, "the processes were looked for")
        document = await rig.status()
        assert "hostPID" in document["podUse"]
        assert document["cards"][0]["unattributedBytes"] is None
        assert document["problems"] == {}
        for name in ("gcushare_pod_memory_used_bytes", "gcushare_card_memory_unattributed_bytes"):
            assert name not in (await rig.get("/metrics"))[1]
        assert "\nUse per pod is not known: process ids are" in render_status(
            describe(rig.app.observed), origin="here", width=None
        )
