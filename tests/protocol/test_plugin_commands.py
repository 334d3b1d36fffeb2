"""What a person and a probe see of a running plugin: status, health, metrics, and the removal of its traces."""

from __future__ import annotations

import json

import grpc
import grpc.aio
import pytest

from gcushare.device_plugin.__main__ import main
from gcushare.node.cdi import CdiSpecFile
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ENFLAME
from tests.protocol.commands import Ran, run_command
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig


async def run_plugin(rig: PluginRig, *words: str, node: str = NODE) -> Ran:
    """Run the real command, as a shell next to the plugin would."""
    server = rig.program.server
    assert server is not None
    argv = [*words, "--listen-address", "127.0.0.1", "--listen-port", str(server.port), "--node-name", node]
    argv += ["--kubelet-dir", str(rig.root), "--cdi-dir", str(rig.root / "cdi")]
    return await run_command(main, *argv, environ={"KUBECONFIG": str(rig.root / "kubeconfig")})


async def test_status_prints_cards_and_pods_and_succeeds_when_all_is_well() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("a", 4, card=1)
        code, text, _ = await run_plugin(rig, "--status")
        assert "No problem" in text
        (box,) = (line for line in text.splitlines() if "GCU-1 " in line)
        assert box.endswith(" healthy  shared ─╮")
        assert "│ a default/a  4 GB " in text
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
