"""``gcushare cards NODE``: the plugins of a node through the API server's proxy of their pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.protocol.cards_command_rig import Caller
from tests.protocol.inspect_rig import Cluster, a_node, cluster, plugin_pod
from tests.protocol.plugin_rig import PluginRig
from tests.unit.card_views import busy, card, status

PLUGIN = "gcushare-device-plugin-x7"
PROXY = "/api/v1/namespaces/kube-system/pods/"


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes; the plugin of the first answers."""
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16), a_node("node-2", 16), plugin_pod(PLUGIN, "node-1"))
        found.front.backends[f"pods/http:{PLUGIN}:32767"] = msgspec.json.encode(busy()).decode()
        yield found


def caller(found: Cluster) -> Caller:
    return Caller(found.environ())


async def test_a_real_plugin_is_reached_through_the_api_server(seen: Cluster) -> None:
    async with PluginRig(cards=(16,)) as rig:
        await rig.run("a", 4, card=0)
        seen.front.backends[f"pods/http:{PLUGIN}:32767"] = rig.url
        ran = await caller(seen).call("node-1")
        assert (ran.code, ran.err) == (0, "")
        assert ran.lines[0].endswith(f", pod kube-system/{PLUGIN}")
        assert any(line.split()[1:3] == ["default/a", "4"] for line in ran.lines)
        assert seen.front.proxied == [f"{PROXY}http:{PLUGIN}:32767/proxy/status"]


async def test_both_vendors_plugins_of_a_node_are_shown_and_no_other_nodes(seen: Cluster) -> None:
    seen.put(plugin_pod("gpushare-device-plugin-y1", "node-1"), plugin_pod("gcushare-device-plugin-z", "node-2"))
    other = status(card(0, model="A100"), vendor="aliyun", unit="GiB")
    seen.front.backends["pods/http:gpushare-device-plugin-y1:32767"] = msgspec.json.encode(other).decode()
    document = await caller(seen).ask("node-1")
    assert [(node["status"]["vendor"], node["origin"]) for node in document["nodes"]] == [
        ("aliyun", "pod kube-system/gpushare-device-plugin-y1"),
        ("enflame", f"pod kube-system/{PLUGIN}"),
    ]
    assert not any("device-plugin-z" in path for path in seen.front.proxied)
