from dataclasses import replace

import pytest

from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.requests import (
    CardRequest,
    CardSelection,
    ContainerKind,
    ContainerResources,
    PodRequest,
    effective_request,
    parse_pod_request,
)
from gcushare.vendors import VENDORS

NAMES = replace(VENDORS[0], memory_resource="v.io/mem", count_resource="v.io/count", whole_card_resource="v.io/card")
APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


def container(name: str = "app", kind: ContainerKind = APP, **limits: object) -> ContainerResources:
    return ContainerResources(name, kind, {f"v.io/{key}": value for key, value in limits.items()}, {})


def parsed(*containers: ContainerResources, cards: int = 1) -> PodRequest:
    request = parse_pod_request(containers, NAMES, cards_per_pod=cards)
    assert request is not None
    return request


@pytest.mark.parametrize(
    ("amounts", "effective"),
    [
        pytest.param([(APP, 4), (APP, 2)], 6, id="app containers add up"),
        pytest.param([(INIT, 8), (INIT, 3), (APP, 4)], 8, id="init containers run alone"),
        pytest.param([(SIDECAR, 2), (APP, 4)], 6, id="a sidecar stays"),
        pytest.param([(SIDECAR, 2), (INIT, 5), (APP, 4)], 7, id="an init container runs with earlier sidecars"),
        pytest.param([(INIT, 5), (SIDECAR, 2), (APP, 1)], 5, id="a later sidecar does not burden an earlier init"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_the_effective_request_follows_kubernetes(amounts: list[tuple[ContainerKind, int]], effective: int) -> None:
    assert effective_request(amounts) == effective


def test_a_pod_without_cards_has_no_request() -> None:
    assert parse_pod_request([container(), container(mem=0)], NAMES) is None


def test_units_are_kept_per_container_in_the_order_of_the_pod() -> None:
    request = parsed(container("init", INIT, mem="3"), container("quiet"), container("app", mem=4))
    assert [(c.name, c.units) for c in request.containers] == [("init", 3), ("app", 4)]
    assert request.cards.units == request.total_units == 4


def test_gpu_count_1_is_accepted_together_with_the_memory() -> None:
    assert parsed(container(mem=5, count=1)).cards.units == 5


def test_gpu_count_2_is_refused_by_container_and_value() -> None:
    with pytest.raises(Refused, match=r"container 'app' asks for v\.io/count: 2"):
        parsed(container(mem=5, count=2))


@pytest.mark.parametrize("value", ["1.5", "-4", "lots", "1e30"])
def test_a_bad_quantity_names_container_resource_and_value(value: str) -> None:
    with pytest.raises(RemoteContractError, match=rf"container 'app': v\.io/mem: quantity '{value}'"):
        parsed(container(mem=value))


@pytest.mark.parametrize(
    ("limits", "requests"),
    [({"v.io/mem": 4}, {"v.io/mem": 2}), ({}, {"v.io/mem": 2}), ({"v.io/mem": 0}, {"v.io/mem": 2})],
)
def test_limits_must_equal_requests(limits: dict[str, object], requests: dict[str, object]) -> None:
    with pytest.raises(RemoteContractError, match="must be equal"):
        parse_pod_request([ContainerResources("app", APP, limits, requests)], NAMES)


def test_equal_amounts_in_other_spelling_are_equal() -> None:
    spelled = ContainerResources("app", APP, {"v.io/mem": "4"}, {"v.io/mem": "4000m"})
    assert parsed(spelled).cards.units == 4


def test_whole_cards_are_counted_like_memory_and_exclude_it() -> None:
    request = parsed(container("init", INIT, card=1), container(card=2))
    assert (request.cards.whole, request.cards.cards) == (True, 2)
    with pytest.raises(Refused, match="not for both"):
        parsed(container(card=1), container("other", mem=4))


def test_memory_over_several_cards_must_divide() -> None:
    assert parsed(container(mem=8), cards=2).cards.units == 4
    with pytest.raises(Refused, match="2 cards cannot share equally"):
        parsed(container(mem=7), cards=2)


@pytest.mark.parametrize(
    ("selection", "allowed"),
    [
        (CardSelection(), True),
        (CardSelection(use=("3",)), True),
        (CardSelection(use=("uuid-3",)), True),
        (CardSelection(use=("S60",)), True),
        (CardSelection(use=("4",)), False),
        (CardSelection(avoid=("S60",)), False),
        (CardSelection(use=("S60",), avoid=("3",)), False),
    ],
)
def test_a_selection_names_cards_by_index_uuid_or_model(selection: CardSelection, allowed: bool) -> None:
    card = InventoryCard(index=3, uuid="uuid-3", memory_bytes=1, model="S60")
    assert selection.allows(card) is allowed
    assert CardRequest(1, selection=selection).allows(card) is allowed
    assert CardRequest(1).allows(card)
