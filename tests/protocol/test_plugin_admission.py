"""The plugin and the kubelet: which card a pod gets, and what its record says afterwards."""

import random

import pytest

from tests.protocol.plugin_rig import PluginRig, backwards, container


async def test_a_recorded_pod_gets_its_card_and_is_marked_assigned() -> None:
    async with PluginRig() as rig:
        await rig.run("a", 4, card=5)
        assert rig.visible("a") == "5"
        assert rig.annotation("a", "gcushare.io/card-uuid") == "GCU-5"
        view = rig.view("a")
        assert view.environment["ENFLAME_COM_GCU_MEM_CONTAINER"] == "4"
        assert view.environment["GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM"] == str(4 << 30)
        assert {device.container_path for device in view.devices} == {"/dev/gcu5", "/dev/gcuctl"}


async def test_an_event_names_a_pod_that_chooses_its_visible_cards_itself() -> None:
    variable = {"name": "ENFLAME_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    async with PluginRig() as rig:
        rig.bind("plain", 4, card=5)
        rig.bind("own", 4, card=0, init=[{"name": "first", "image": "x", "env": [variable]}])
        await rig.until_recorded("plain", "own")
        await rig.event("OwnVisibleDevices")
        (text,) = rig.events("OwnVisibleDevices")
        assert text.startswith("container 'first' sets ENFLAME_VISIBLE_DEVICES from elsewhere (valueFrom): it sees")


async def test_equal_pods_admitted_in_swapped_order_end_with_true_records() -> None:
    async with PluginRig(order=backwards, batch_window_s=0.1) as rig:
        rig.bind("a", 4, card=0)
        rig.bind("b", 4, card=1)
        await rig.until_recorded("a", "b")
        for name in ("a", "b"):
            assert rig.record(name)[0] == rig.visible(name)
        assert rig.annotation("a", "gcushare.io/corrected") == "0->1"
        await rig.event("CardCorrected")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
async def test_mixed_sizes_in_any_order_end_true_and_within_every_card(seed: int) -> None:
    rng = random.Random(seed)
    async with PluginRig(seed=seed, batch_window_s=0.05) as rig:
        free = [16] * 8
        names = []
        for number in range(20):
            units = rng.choice([1, 2, 4, 8])
            card = next((index for index, left in enumerate(free) if left >= units), None)
            if card is not None:
                free[card] -= units
                names.append(f"p{number}")
                rig.bind(names[-1], units, card=card)
        await rig.until_recorded(*names)
        assert {name: rig.record(name)[0] for name in names} == {name: rig.visible(name) for name in names}, f"{seed=}"


async def test_containers_of_one_pod_share_its_card_and_reuse_the_init_containers_units() -> None:
    async with PluginRig() as rig:
        sidecar = container("side", 2, restartPolicy="Always")
        await rig.run("a", 4, 3, card=2, init=[container("init", 8), sidecar])
        assert {rig.visible("a", name) for name in ("c0", "c1", "side")} == {"2"}
        assert rig.annotation("a", "enflame.com/gcu-device-memory-request") == "9"


@pytest.mark.parametrize(("cards", "is_given"), [((16,), True), ((8, 16), False)], ids=["one card", "two"])
async def test_a_kubelet_1_18_picks_any_ids_and_those_of_two_cards_are_refused(
    cards: tuple[int, ...], is_given: bool
) -> None:
    """It asks for no preference, and has no podresources API v1."""
    async with PluginRig(cards=cards, version="v1.18.20", asks_preferred=False, podresources=False) as rig:
        rig.bind("a", sum(cards) - 2, card=0)
        if is_given:
            await rig.until_recorded("a")
            assert rig.visible("a") == "0"
        else:
            assert "gets one: the kubelet asked for no preference" in await rig.until_failed("a")
            assert rig.app.observed.store.held_units() == {}
