"""The scenarios: the Enflame manual's chapter 4, the T4 that a class shares, and whole cards with shared ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from gcushare.kube.resources import Resource
from gcushare_playground.demo.apart_and_linked import play_apart_and_linked
from gcushare_playground.demo.idle import play_idle
from gcushare_playground.demo.playing import PlacedPod, Player
from gcushare_playground.demo.settings import DemoSettings, ScenarioName
from gcushare_playground.demo.whole_cards import play_whole_and_shared
from gcushare_playground.picture import POD_OBJECTS, JsonObject

Scenario = Callable[[Player], Awaitable[None]]

_DEPLOYMENTS: Resource[JsonObject] = Resource("apis/apps/v1", "deployments", dict)
MANUAL_NAMESPACE = "kube-system"
MANUAL_CONTAINER = "pod-gcu-example"
MANUAL_QUARTERS = (1, 2, 3, 5)
"""The manual's 4, 8, 12 and 20 GB in quarters of its 16 GB cards."""


async def play_manual(player: Player) -> None:
    """Chapter 4.1: two pods share card 0, the third gets card 1, the fourth asks for more than any card has."""
    card_units = max(size for cards in player.ledger.capacity.values() for size in cards)
    titles = (
        "A first pod gets a part of card 0",
        "A second pod gets the same card: the card in use is filled first",
        "A third pod does not fit on it and gets another card: a pod never spans cards",
        "A fourth pod asks for more than one card has: it stays Pending and says why",
    )
    for number, (quarters, title) in enumerate(zip(MANUAL_QUARTERS, titles, strict=True), start=1):
        units = card_units * quarters // 4
        name = f"gcushare-pod-{number}"
        player.stage.step(f"Step {number}. {title}")
        await create_pod(player, f"{MANUAL_NAMESPACE}/{name}", MANUAL_CONTAINER, units)
        if quarters <= 4:
            await player.place(PlacedPod(f"{MANUAL_NAMESPACE}/{name}", MANUAL_CONTAINER, units))
        else:
            await player.refuse(f"{MANUAL_NAMESPACE}/{name}", units)
    await player.show_cluster()


async def play_shared_t4(player: Player) -> None:
    """Deployments of 5 and 4 GiB whose pods ask for the card count too (9 of 14), and one more that finds no room."""
    card_units = max(size for cards in player.ledger.capacity.values() for size in cards)
    first, second = card_units * 5 // 14, card_units * 4 // 14
    player.stage.step("Step 1. A Deployment whose pod asks for a part of the card")
    key = await _create_deployment(player, "binpack-1", first)
    await player.place(PlacedPod(key, "binpack-1", first))
    player.stage.step("Step 2. A second student's Deployment on the same card")
    key = await _create_deployment(player, "binpack-2", second)
    await player.place(PlacedPod(key, "binpack-2", second))
    player.stage.step("Step 3. A third student asks for more than any card has left")
    third = max(size - used for name in player.ledger.used for size, used in _cards(player, name)) + 1
    await create_pod(player, "default/student-3", "notebook", third)
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


def _cards(player: Player, node: str) -> list[tuple[int, int]]:
    return list(zip(player.ledger.capacity[node], player.ledger.used[node], strict=True))


async def create_pod(player: Player, key: str, container: str, units: int) -> None:
    """Create a pod as the manual writes it, with the memory resource alone; ``key`` is namespace/name."""
    namespace, name = key.split("/")
    resource = player.vendor.memory_resource
    player.stage.command(f"kubectl create -f {name}.json    # {resource}: {units}")
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": _pod_spec(container, {resource: units}),
    }
    await player.cluster.client.create(POD_OBJECTS, body, namespace=namespace)
    player.stage.output(f"pod/{name} created")


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
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(name, limits)},
        },
    }
    await player.cluster.client.create(_DEPLOYMENTS, body, namespace="default")
    player.stage.output(f"deployment.apps/{name} created")
    pods = player.cluster.pods

    def keys() -> list[str]:
        return [key for key in pods.objects if key.startswith(f"default/{name}-")]

    await pods.until(lambda: bool(keys()), f"deployment {name} created its pod")
    return keys()[0]


def _pod_spec(container: str, limits: Mapping[str, int]) -> JsonObject:
    return {
        "containers": [
            {"name": container, "image": "cheyang/gpu-player:v2", "resources": {"limits": dict(limits)}},
        ],
    }
