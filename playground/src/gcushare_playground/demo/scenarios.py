"""The scenarios: the Enflame manual's chapter 4, the T4 that a class shares, and whole cards with shared ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from gcushare.kube.resources import Resource
from gcushare_playground.demo.apart_and_linked import play_apart_and_linked
from gcushare_playground.demo.idle import play_idle
from gcushare_playground.demo.manual import play_manual
from gcushare_playground.demo.playing import Player, pod_spec
from gcushare_playground.demo.settings import DemoSettings, ScenarioName
from gcushare_playground.demo.whole_cards import play_whole_and_shared
from gcushare_playground.picture import JsonObject

Scenario = Callable[[Player], Awaitable[None]]

_DEPLOYMENTS: Resource[JsonObject] = Resource("apis/apps/v1", "deployments", dict)


async def play_shared_t4(player: Player) -> None:
    """Deployments of 5 and 4 GiB whose pods ask for the card count too (9 of 14), and one more that finds no room."""
    card_units = player.ledger.largest
    first, second = card_units * 5 // 14, card_units * 4 // 14
    player.stage.step("Step 1. A Deployment whose pod asks for a part of the card")
    key = await _create_deployment(player, "binpack-1", first)
    await player.place(key, first, container="binpack-1")
    player.stage.step("Step 2. A second student's Deployment on the same card")
    key = await _create_deployment(player, "binpack-2", second)
    await player.place(key, second, container="binpack-2")
    player.stage.step("Step 3. A third student asks for more than any card has left")
    third = max(player.ledger.free()) + 1
    await player.create("student-3", {player.vendor.memory_resource: third}, container="notebook")
    await player.refuse("default/student-3", third)
    await player.show_cluster()


_BY_NAME: Mapping[ScenarioName, Scenario] = {
    ScenarioName.IDLE: play_idle,
    ScenarioName.WHOLE: play_whole_and_shared,
    ScenarioName.APART: play_apart_and_linked,
    ScenarioName.UNIFIED: play_shared_t4,
}
_OF_VENDOR: Mapping[str, Scenario] = {"aliyun": play_shared_t4}
"""Those that are not the manual's."""


def choose_scenario(settings: DemoSettings) -> Scenario:
    """The scenario that was asked for, or the vendor's own."""
    return _BY_NAME.get(settings.scenario) or _OF_VENDOR.get(settings.vendor, play_manual)


async def _create_deployment(player: Player, name: str, units: int) -> str:
    """Create the published Deployment and return the key of its pod."""
    vendor, labels = player.vendor, {"app": name}
    limits = {vendor.count_resource: 1, vendor.memory_resource: units}
    player.stage.command(f"kubectl apply -f 1.yaml    # {vendor.count_resource}: 1, {vendor.memory_resource}: {units}")
    body: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(name, limits)},
        },
    }
    await player.cluster.client.create(_DEPLOYMENTS, body, namespace="default")
    player.stage.output(f"deployment.apps/{name} created")
    pods = player.cluster.pods

    def keys() -> list[str]:
        return [key for key in pods.objects if key.startswith(f"default/{name}-")]

    await pods.until(lambda: bool(keys()), f"deployment {name} created its pod")
    return keys()[0]
