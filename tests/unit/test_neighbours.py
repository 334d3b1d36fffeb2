"""The table of other systems: each is found by its own traces, and never by ours."""

from __future__ import annotations

import pytest

from gcushare.vendors import ALIYUN, ENFLAME, VENDORS, Vendor
from gcushare.vendors.neighbours import find_neighbours, neighbours_of
from tests.neighbours import read_objects


def found_on(vendor: Vendor, name: str) -> list[str]:
    """The systems that a file's Node and slices show to the programs of a vendor."""
    node, *others = read_objects(name)
    drivers = [each["spec"]["driver"] for each in others if each["kind"] == "ResourceSlice"]
    known = neighbours_of(vendor.whole_card_resource)
    annotations = node["metadata"].get("annotations", {})
    return [str(each) for each in find_neighbours(known, node["status"]["allocatable"], annotations, drivers)]


@pytest.mark.parametrize(
    ("name", "vendor", "signs"),
    [
        ("hami-nvidia", ALIYUN, ["HAMi (annotation hami.io/node-nvidia-register)"]),
        ("nvidia-dra", ALIYUN, ["NVIDIA's DRA driver (ResourceSlices of gpu.nvidia.com)"]),
        ("enflame-gcushare", ENFLAME, ["Enflame's gcushare 3.6 (enflame.com/shared-gcu 12)"]),
        ("hami-enflame", ENFLAME, ["Enflame's gcushare 3.6 (enflame.com/drs-gcu 12)"]),
        ("kai", ALIYUN, []),  # NVIDIA's device plugin, which the kubelet's checkpoint shows
        ("nvidia-device-plugin", ALIYUN, []),  # likewise
        ("hami-nvidia", ENFLAME, []),
        ("enflame-gcushare", ALIYUN, []),
    ],
)
def test_a_system_shows_to_the_vendor_whose_cards_it_hands_out(name: str, vendor: Vendor, signs: list[str]) -> None:
    assert found_on(vendor, name) == signs


def test_a_resource_that_is_counted_as_0_is_no_sign() -> None:
    known = tuple(neighbours_of(ENFLAME.whole_card_resource))
    assert find_neighbours(known, {"enflame.com/shared-gcu": "0"}, {}) == ()
    assert len(find_neighbours(known, {"enflame.com/shared-gcu": "1"}, {})) == 1


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_what_our_own_programs_write_is_no_sign(vendor: Vendor) -> None:
    counts = dict.fromkeys((vendor.memory_resource, vendor.count_resource, vendor.whole_card_resource), "8")
    annotations = dict.fromkeys((vendor.inventory_annotation, vendor.cordon_annotation), "x")
    drivers = [each.claims.driver for each in VENDORS]
    assert find_neighbours(neighbours_of(vendor.whole_card_resource), counts, annotations, drivers) == ()
