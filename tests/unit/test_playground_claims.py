"""The playground's doubles of what Kubernetes does with claims: admission, the claims' controller, the allocator."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gcushare.vendors import ENFLAME
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.scheduler.claims import ClaimsView, devices_of

NAMES, MEMORY = ENFLAME.claims, ENFLAME.memory_resource


def slice_of(name: str, *devices: JsonObject, node: str = "a", generation: int = 1, count: int = 1) -> JsonObject:
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": NAMES.driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"metadata": {"name": name}, "spec": spec}


def card(index: int, **more: Any) -> JsonObject:
    policy = {"default": "16Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "16Gi", "requestPolicy": policy}}
    return {"name": f"card-{index}", "capacity": capacity, **more}


def claim(amount: str | None, *, count: int = 1, given: str = "", node: str = "a") -> JsonObject:
    exactly = {"deviceClassName": NAMES.memory_class, "count": count}
    if amount is not None:
        exactly["capacity"] = {"requests": {"memory": amount}}
    constraints = [{"distinctAttribute": f"{NAMES.driver}/uuid"}] if count > 1 else []
    found = {"spec": {"devices": {"requests": [{"name": "card", "exactly": exactly}], "constraints": constraints}}}
    result = {"driver": NAMES.driver, "pool": node, "device": given, "consumedCapacity": {"memory": amount}}
    return found | ({"status": {"allocation": {"devices": {"results": [result]}}}} if given else {})


def allocated(*slices: JsonObject, wanted: JsonObject, used: dict[str, int] | None = None) -> list[str] | None:
    """Devices and amounts that a claim gets on node ``a``, where ``used`` GiB are in use."""
    held = Counter({(NAMES.driver, "a", name): gib << 30 for name, gib in (used or {}).items()})
    view = ClaimsView((wanted,), {NAMES.memory_class: NAMES.driver}, tuple(devices_of(list(slices))), held)
    found = view.allocate("a")
    assert view.held == held, "a question changes nothing"
    return None if found is None else [f"{each['device']} {each['consumedCapacity']['memory']}" for each in found[0]]


@pytest.mark.parametrize(
    ("wanted", "used", "given"),
    [
        pytest.param(claim("4Gi"), {}, ["card-0 4Gi"], id="the first"),
        pytest.param(claim("4Gi"), {"card-0": 13}, ["card-1 4Gi"], id="the first that fits"),
        pytest.param(claim("1500Mi"), {}, ["card-0 2Gi"], id="rounded up to a step"),
        pytest.param(claim(None), {"card-0": 1}, ["card-1 16Gi"], id="no amount takes all"),
        pytest.param(claim("4Gi", count=2), {}, ["card-0 4Gi", "card-1 4Gi"], id="two different cards"),
        pytest.param(claim("4Gi", count=2), {"card-1": 14}, None, id="one of two does not fit"),
        pytest.param(claim("17Gi"), {}, None, id="more than a card"),
        pytest.param(claim("4Gi", given="card-1"), {}, ["card-1 4Gi"], id="allocated before"),
        pytest.param(claim("4Gi", given="card-1", node="b"), {}, None, id="allocated before on another node"),
    ],
)
def test_the_first_device_that_fits_is_allocated(
    wanted: JsonObject, used: dict[str, int], given: list[str] | None
) -> None:
    assert allocated(slice_of("s", card(0), card(1)), wanted=wanted, used=used) == given


def test_only_complete_pools_of_the_newest_generation_without_taints_count() -> None:
    wanted = claim("4Gi")
    assert allocated(slice_of("s1", card(0)), slice_of("s2", card(1), generation=2), wanted=wanted) == ["card-1 4Gi"]
    assert allocated(slice_of("s1", card(0), count=2), wanted=wanted) is None
    tainted = card(0, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert allocated(slice_of("s1", tainted, card(1)), wanted=wanted) == ["card-1 4Gi"]
    assert allocated(slice_of("s1", card(0), node="b"), wanted=wanted) is None
