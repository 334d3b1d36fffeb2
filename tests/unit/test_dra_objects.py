"""Slices, claims, and the names in them, on the wire."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.dra.claim_names import (
    MAX_CARDS,
    MAX_UNITS,
    ClaimSize,
    device_name,
    parse_device_name,
    parse_template_name,
    unit_bytes,
)
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, RESOURCE_CLAIM, claimed_request
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
from gcushare.wire.objects import ObjectMeta, Pod

PREFIX = ENFLAME.claims.template_prefix
MAX_ANNOTATIONS_BYTES = 256 << 10
"""Of an object's annotations together. Source: apimachinery/pkg/api/validation/objectmeta.go."""


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


def test_the_claims_of_a_pod_are_those_that_it_names_and_those_that_kubernetes_made() -> None:
    spec = {"resourceClaims": [{"name": "a", "resourceClaimName": "own"}, {"name": "b"}]}
    made = [{"name": "b", "resourceClaimName": "of-a-template"}]
    status = {"resourceClaimStatuses": made, "extendedResourceClaimStatus": {"resourceClaimName": "whole"}}
    pod = POD_WITH_CLAIMS.read(msgspec.json.encode({"spec": spec, "status": status}))
    assert pod.claim_names == {"own", "of-a-template", "whole"}


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


@given(st.integers(1, MAX_UNITS), st.integers(1, MAX_CARDS))
def test_a_size_is_read_from_its_own_name(units: int, cards: int) -> None:
    size = ClaimSize(units, cards)
    assert parse_template_name(size.template_name("gcu-memory"), "gcu-memory") == size


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpu-mem-5", id="another vendor's"),
        pytest.param("gcu-memory", id="no size"),
        pytest.param("gcu-memory-0", id="nothing"),
        pytest.param("gcu-memory-05", id="a second name of the same size"),
        pytest.param("gcu-memory-5-cards-1", id="one card, written out"),
        pytest.param("gcu-memory-5-cards-33", id="more cards than a claim may have"),
        pytest.param("gcu-memory-1000000001", id="more units than any card has"),
        pytest.param("gcu-memory-5-backup", id="a user's own template"),
        pytest.param("gcu-memory-٥", id="a digit of another script"),
    ],
)
def test_other_names_are_not_ours(name: str) -> None:
    assert parse_template_name(name, "gcu-memory") is None


@pytest.mark.parametrize("index", [0, 12])
def test_a_device_name_reads_back(index: int) -> None:
    assert parse_device_name(device_name(index)) == index


@pytest.mark.parametrize("name", ["", "7", "card-", "card-01", "card-x", "gpu-0", "card-0-whole", "card-²", "card--1"])
def test_a_name_of_another_form_is_not_a_device_of_ours(name: str) -> None:
    assert parse_device_name(name) is None


def containers_of(claimed: str) -> dict[str, int]:
    entry = {"name": f"gcushare-{PREFIX}", "resourceClaimTemplateName": f"{PREFIX}-20"}
    metadata = {"name": "p", "annotations": {CLAIMED_UNITS: claimed}}
    request = claimed_request(
        msgspec.convert({"metadata": metadata, "spec": {"resourceClaims": [entry]}}, Pod), ENFLAME
    )
    assert request is not None
    assert (request.cards.units, request.cards.cards) == (20, 1)
    return {each.name: each.units for each in request.containers}


@pytest.mark.parametrize(
    ("claimed", "containers"),
    [
        ("main=20", {"main": 20}),
        ("init=4,a=12,b=8", {"init": 4, "a": 12, "b": 8}),
        ("", {}),
        ("main", {}),
        ("=4,a=,b=-1,c=1.5,d=٣,e=1", {"e": 1}),
        pytest.param("main=" + "9" * 5000, {}, id="a number that no int is read from"),
    ],
)
def test_each_container_that_can_be_read_is_known(claimed: str, containers: dict[str, int]) -> None:
    assert containers_of(claimed) == containers


@pytest.mark.parametrize("letter", "a9=,")
def test_an_annotation_as_long_as_may_be_is_read_at_once(letter: str) -> None:
    """Else the extender that sees the pod does nothing else for minutes, and this test ends by its time limit."""
    assert containers_of(letter * MAX_ANNOTATIONS_BYTES) == {}
