"""Slices and claims on the wire."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.wire.dra.claim_names import unit_bytes
from gcushare.wire.dra.claims import RESOURCE_CLAIM
from gcushare.wire.dra.slices import (
    RESOURCE_SLICE,
    Attribute,
    Device,
    DeviceTaint,
    ResourcePool,
    SliceSpec,
    new_slice,
    quantity,
)
from gcushare.wire.objects import ObjectMeta


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        pytest.param(0, "0", id="nothing"),
        pytest.param(1000, "1k", id="a thousand"),
        pytest.param(1536, "1536", id="below a whole KiB"),
        pytest.param(3 * 1024, "3Ki", id="KiB"),
        pytest.param(16 * GIB, "16Gi", id="GiB"),
    ],
)
def test_a_quantity_is_written_in_its_shortest_form_and_reads_back_as_the_same_amount(amount: int, text: str) -> None:
    assert quantity(amount) == text
    assert parse_count(text) == amount


def test_a_slice_is_read_back_as_it_was_written_whatever_the_api_server_adds() -> None:
    device = Device(
        name="card-0", attributes={"index": Attribute(int=0)}, taints=(DeviceTaint(key="d/sick", effect="NoSchedule"),)
    )
    spec = SliceSpec(driver="d", node_name="n", pool=ResourcePool(name="n", generation=1), devices=(device,))
    document = msgspec.json.decode(msgspec.json.encode(new_slice(ObjectMeta(name="s"), spec)))
    assert document["spec"]["devices"][0]["attributes"] == {"index": {"int": 0}}
    assert document["spec"]["devices"][0]["taints"] == [{"key": "d/sick", "effect": "NoSchedule"}]
    document["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    assert RESOURCE_SLICE.read(msgspec.json.encode(document)).spec == spec


def test_a_claim_names_the_results_of_each_driver_and_what_they_consume() -> None:
    results = [
        {"request": "card", "driver": "ours", "pool": "n", "device": "card-0", "consumedCapacity": {"memory": "4Gi"}},
        {"request": "card", "driver": "theirs", "pool": "n", "device": "x"},
        {"request": "all", "driver": "ours", "pool": "n", "device": "card-1"},
    ]
    claim = RESOURCE_CLAIM.read(msgspec.json.encode({"status": {"allocation": {"devices": {"results": results}}}}))
    assert [each.consumed_memory() for each in claim.results_of("ours")] == ["4Gi", None]
    assert RESOURCE_CLAIM.read(b"{}").results_of("ours") == ()


@pytest.mark.parametrize("name", ["1", "0.1", "0.01", "0.001", "MiB"])
def test_an_amount_of_units_in_a_claim_stands_for_exactly_so_many(name: str) -> None:
    step = unit_bytes(parse_memory_unit(name))
    assert 32_000 * step // step == 32_000
    assert parse_memory_unit(name).bytes_of(4) - 4 * step < 4
