"""What a pod asked for before the admission policy made a claim of it, as the policy's annotation says."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CLAIMED_UNITS
from gcushare.wire.dra.claims import claimed_request
from gcushare.wire.objects import Pod

PREFIX = ENFLAME.claims.template_prefix
MAX_ANNOTATIONS_BYTES = 256 << 10
"""Of an object's annotations together. Source: apimachinery/pkg/api/validation/objectmeta.go."""


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
