"""The claims driver offers no card that another system hands out on its node."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.node.node_settings import OtherSystems
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.api_objects import merge_into
from tests.neighbours import read_objects
from tests.protocol.claims_rig import ClaimsRig
from tests.protocol.node_rig import NODE


def put_neighbour(rig: ClaimsRig, name: str) -> None:
    node, *others = read_objects(name)
    merge_into(rig.api, "Node", NODE, {"metadata": node["metadata"]})
    rig.set_status("Node", NODE, **node["status"])
    for each in others:
        rig.api.registry.put(each)


def own_slices(rig: ClaimsRig) -> list[dict[str, Any]]:
    return [each for each in rig.slices() if each["spec"]["driver"] == rig.vendor.claims.driver]


@pytest.mark.parametrize(
    ("name", "vendor", "words"),
    [
        ("enflame-gcushare", ENFLAME, "Enflame's gcushare 3.6 (enflame.com/shared-gcu 12)"),
        ("kai", ALIYUN, "a device plugin still offers nvidia.com/gpu on this node"),
        ("nvidia-dra", ALIYUN, "NVIDIA's DRA driver (ResourceSlices of gpu.nvidia.com)"),
    ],
)
async def test_each_known_system_is_named_and_no_slice_published(name: str, vendor: Vendor, words: str) -> None:
    async with ClaimsRig(vendor=vendor) as rig:
        put_neighbour(rig, name)
        await rig.start(until_published=False)
        await rig.until(lambda: words in rig.problem("cards"), "the system is named")
        assert own_slices(rig) == []


async def test_the_slices_come_when_the_other_system_has_gone() -> None:
    async with ClaimsRig(vendor=ALIYUN) as rig:
        put_neighbour(rig, "nvidia-dra")
        await rig.start(until_published=False)
        await rig.until(lambda: "NVIDIA's DRA" in rig.problem("cards"), "it stands back")
        rig.delete_slices()
        await rig.until(lambda: bool(own_slices(rig)), "ours are published")


async def test_an_admin_who_divided_the_cards_has_both() -> None:
    async with ClaimsRig(other_systems=OtherSystems.ALLOW) as rig:
        put_neighbour(rig, "enflame-gcushare")
        await rig.start()
        assert own_slices(rig)
