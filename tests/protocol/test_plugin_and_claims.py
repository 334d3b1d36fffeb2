"""One program of a node: which way of giving out cards it starts with, and how it changes to the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY
from gcushare.core.errors import DeviceError
from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.claims.app import ClaimsApp
from gcushare.device_plugin.program import NodeProgram
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import DEVICE_PLUGIN, SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.checkpoint import CHECKPOINT_NAME
from tests.api_objects import delete, listed, merge_into
from tests.charts import granted, needs_helm
from tests.protocol.claims_rig import ClaimsRig, share
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PLUGIN_USER, RESOURCE, PluginRig

CLAIMS_DIR = f"plugins/{ENFLAME.claims.driver}"


def label(rig: PluginRig, value: str | None) -> None:
    merge_into(rig.api, "Node", NODE, {"metadata": {"labels": {SERVE_LABEL: value}}})


def slices(rig: PluginRig) -> list[dict[str, Any]]:
    return listed(rig.api, "ResourceSlice")


def claims_of(rig: PluginRig) -> ClaimsRig:
    """The rig of claims on the same node, for its claims and pods."""
    found = ClaimsRig()
    found.root, found.api = rig.root, rig.api
    return found


async def until_serving(rig: PluginRig, way: type) -> None:
    await rig.until(lambda: isinstance(rig.program.way, way), f"the node is served by {way.__name__}")


@asynccontextmanager
async def watched(rig: PluginRig) -> AsyncIterator[None]:
    """Check that the node offers its cards in one way at each moment."""
    twice: list[str] = []

    async def look() -> None:
        while True:
            count = rig.kubelet.counts().get(RESOURCE)
            if count is not None and count.allocatable and slices(rig):
                twice.append(f"{count} and {len(slices(rig))} slices")
            await asyncio.sleep(0.005)

    looking = asyncio.create_task(look(), name="offers")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])
    assert twice == []


@pytest.mark.slow
async def test_a_node_changes_to_claims_and_back_only_when_nothing_holds_cards() -> None:
    async with PluginRig(cards=(16, 16)) as rig, watched(rig):
        server = rig.program.server
        await rig.run("old", 4, card=0)
        label(rig, SERVE_CLAIMS)
        await rig.until(lambda: "default/old" in rig.problem("leaving"), "it names the pod that holds a card")
        await rig.until_units(32, allocatable=4)
        assert (await rig.status())["modes"] == [SERVES_MEMORY]
        assert rig.published().modes == (SERVES_MEMORY,), "the pod is counted in its unit"
        await rig.until(lambda: all(card.cordoned for card in rig.published().cards), "the extender learns it")
        assert slices(rig) == []

        await rig.finish("old")
        await until_serving(rig, ClaimsApp)
        await rig.until(lambda: len(slices(rig)) == 1, "the cards stand in a slice")
        await rig.until(lambda: rig.published().modes == (SERVES_CLAIMS,), "every reader learns it")
        assert rig.program.server is server, "the HTTP port stays as it is"
        assert (await rig.status())["modes"] == [SERVES_CLAIMS]
        assert not any(card.cordoned for card in rig.published().cards)

        claims_of(rig).allocate("held", share("card-0", 4))
        label(rig, None)
        await rig.until(lambda: slices(rig) == [], "nothing is offered to claims any more")
        assert isinstance(rig.program.way, ClaimsApp)
        async with asyncio.timeout(20):
            # A claim that was allocated before, and is not prepared yet.
            while await rig.program.way.find_holders() != "default/held":  # noqa: ASYNC110 - nothing sets an event
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert isinstance(rig.program.way, ClaimsApp)
        delete(rig.api, "ResourceClaim", "held")
        await until_serving(rig, PluginApp)
        await rig.until_units(32)
        await rig.until(lambda: rig.published().modes == (SERVES_MEMORY,), "every reader learns it")
        await rig.run("new", 4, card=1)


async def test_a_label_that_is_taken_back_leaves_the_node_as_it_was() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("old", 4, card=0)
        label(rig, SERVE_CLAIMS)
        await rig.until_units(32, allocatable=4)
        label(rig, None)
        await rig.until_units(32)
        assert rig.problem("leaving") == ""
        assert isinstance(rig.program.way, PluginApp)


async def test_units_that_pods_hold_decide_before_the_label() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("old", 4, card=0)
        await rig.stop_plugin()
        label(rig, SERVE_CLAIMS)
        await rig.start_plugin(chooses=True)
        await rig.until_units(32, allocatable=4)
        assert slices(rig) == []
        await rig.finish("old")
        await rig.until(lambda: len(slices(rig)) == 1, "the cards stand in a slice")


@pytest.mark.parametrize("is_readable", [True, False], ids=["prepared claims", "a checkpoint that cannot be read"])
async def test_prepared_claims_decide_before_the_label(is_readable: bool) -> None:
    async with PluginRig(cards=(16, 16), plugin_first=False) as rig:
        claim = {"uid": "u", "namespace": "default", "name": "c", "isComplete": True, "devices": []}
        folder = rig.root / CLAIMS_DIR
        folder.mkdir(parents=True)
        text = json.dumps({"version": 1, "claims": {"u": claim}}) if is_readable else "{"
        (folder / CHECKPOINT_NAME).write_text(text)
        (folder / CHECKPOINT_NAME).chmod(0o600)
        await rig.start_plugin(chooses=True)
        await until_serving(rig, ClaimsApp)
        assert RESOURCE not in rig.kubelet.counts()


@pytest.mark.slow
async def test_a_node_whose_inventory_is_of_claims_withdraws_its_slices_first() -> None:
    """They may stand still, and claims may be allocated: the program was ended before the label was taken away."""
    async with PluginRig(cards=(16, 16), plugin_first=False) as rig, watched(rig):
        label(rig, SERVE_CLAIMS)
        await rig.start_plugin(chooses=True)
        await rig.until(lambda: len(slices(rig)) == 1, "the cards stand in a slice")
        await rig.end_program()
        claims_of(rig).allocate("held", share("card-0", 4))
        label(rig, None)
        await rig.start_plugin(chooses=True)
        await rig.until(lambda: slices(rig) == [], "it withdraws them")
        assert RESOURCE not in rig.kubelet.counts()
        delete(rig.api, "ResourceClaim", "held")
        await rig.until_units(32)


async def test_without_the_folders_for_drivers_resources_are_served_unless_pods_hold_claims() -> None:
    async with ClaimsRig() as claims:
        claims.kubelet.registry.rmdir()
        claims.claims_of["trainer"] = ["c"]
        async with KubeClient(KubeConfig(claims.api.url, "the test")) as client:
            program = NodeProgram(claims.settings(), client)
            with pytest.raises(DeviceError, match=r"pods hold claims on this node's cards \(default/trainer\)"):
                await program._choose()
            claims.claims_of.clear()
            assert await program._choose() is False


@needs_helm
@pytest.mark.parametrize("serves_claims", [True, False])
async def test_both_ways_and_the_choice_need_no_right_that_the_chart_does_not_give(*, serves_claims: bool) -> None:
    async with PluginRig(cards=(16, 16), plugin_first=False) as rig:
        if serves_claims:
            label(rig, SERVE_CLAIMS)
        await rig.start_plugin(chooses=True)
        if serves_claims:
            await rig.until(lambda: len(slices(rig)) == 1, "the cards stand in a slice")
            label(rig, None)
        await rig.until_units(32)
        await rig.run("new", 4, card=1)
        used = rig.api.requests.used(PLUGIN_USER)
    assert ("", "pods/status", "patch") in used
    assert (("resource.k8s.io", "resourceclaims", "list") in used) is serves_claims
    assert used - granted(DEVICE_PLUGIN, *(["global.claims.enabled=true"] if serves_claims else [])) == set()
