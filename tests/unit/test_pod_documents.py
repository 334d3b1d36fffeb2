from typing import Any

import msgspec
import pytest

from gcushare.core.assignments import Assignment, CardGrant
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.requests import PodRequest
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.dra.claims import problem_of_both_ways
from gcushare.wire.objects import Pod
from gcushare.wire.pod_options import PodOptions, pod_options
from gcushare.wire.pods import pod_assignment, pod_request
from tests.extender_objects import pod_document

RECORD = {
    "enflame.com/gcu-device-id": "2",
    "enflame.com/gcu-device-memory": "16",
    "enflame.com/gcu-device-assigned": "true",
}


def pod(units: object = 4, *init: dict[str, object], **options: Any) -> Pod:
    """A bound pod, with an init container for each of these limits."""
    document = pod_document("p", units, **{"node": "n", **options})
    document["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": limits}} for limits in init]
    return msgspec.convert(document, Pod)


def held_by(bound: Pod) -> Assignment:
    found = pod_assignment(bound, ENFLAME)
    assert found is not None
    return found


def asked_by(bound: Pod) -> PodRequest:
    found = pod_request(bound, ENFLAME)
    assert found is not None
    return found


def test_a_bound_pod_holds_what_its_record_names_in_the_amount_of_its_spec() -> None:
    forged = {**RECORD, "enflame.com/gcu-device-memory-request": "9999"}
    assignment = held_by(pod(4, annotations=forged))
    assert (assignment.grants, assignment.assigned) == ((CardGrant(2, 4),), True)


def test_an_unbound_pods_record_is_ignored_since_its_author_may_have_written_it() -> None:
    assert pod_assignment(pod(node="", annotations=RECORD), ENFLAME) is None


def test_a_bound_pod_without_a_record_is_known_to_have_no_card_yet() -> None:
    assert held_by(pod()).grants == ()


def test_a_pod_of_another_vendor_is_none_of_ours() -> None:
    assert pod_request(pod(), ALIYUN) is None
    assert pod_assignment(pod(annotations=RECORD), ALIYUN) is None


@pytest.mark.parametrize("first", [True, False])
def test_a_pod_of_two_vendors_is_refused_before_it_is_bound_and_counts_afterwards(first: bool) -> None:
    both, vendor = pod(4, {"aliyun.com/gpu-mem": "2e0"}), ENFLAME if first else ALIYUN
    with pytest.raises(Refused, match=r"enflame.com/gcu-memory and .*|aliyun.com/gpu-mem and .*"):
        pod_request(both, vendor)
    held = pod_request(both, vendor, is_bound=True)
    assert (held.total_units if held is not None else 0) == (4 if first else 2)


@pytest.mark.parametrize("zero", ["0", 0, "0e3", "0Gi"])
def test_an_amount_of_zero_of_one_vendor_leaves_the_cards_of_the_other(zero: object) -> None:
    found = pod(4, {"aliyun.com/gpu-mem": zero}, node="")
    assert asked_by(found).total_units == 4
    assert pod_request(found, ALIYUN) is None


@pytest.mark.parametrize("zero", ["0", 0])
def test_an_amount_of_zero_of_whole_cards_leaves_memory_over_several_cards(zero: object) -> None:
    two = {"gcushare.io/cards": "2"}
    cards = asked_by(pod(8, {"enflame.com/gcu": zero}, annotations=two)).cards
    assert (cards.units, cards.cards) == (4, 2)
    with pytest.raises(Refused, match=r"remove the annotation and request enflame.com/gcu: 2"):
        pod_request(pod(whole=1, annotations=two), ENFLAME)


@pytest.mark.parametrize(("units", "is_both"), [("0", False), (0, False), ("1", True), ("4k", True)])
def test_a_pod_asks_in_both_ways_if_its_amount_of_memory_is_not_zero(units: object, *, is_both: bool) -> None:
    assert bool(problem_of_both_ways(pod(units, node=""), ENFLAME)) is is_both


def test_memory_of_one_vendor_beside_whole_cards_of_another_is_refused_by_what_the_pod_asks_for() -> None:
    with pytest.raises(Refused, match=r"asks for nvidia.com/gpu and for enflame.com/gcu-memory, but"):
        pod_request(pod(4, {"nvidia.com/gpu": "1"}, node=""), ALIYUN)


def test_memory_over_several_cards_is_divided_over_the_record() -> None:
    annotations = {**RECORD, "enflame.com/gcu-device-id": "3,1", "gcushare.io/cards": "2"}
    assert held_by(pod(8, annotations=annotations)).grants == (CardGrant(1, 4), CardGrant(3, 4))
    torn = {**annotations, "gcushare.io/units-by-card": "2,6"}
    assert held_by(pod(8, annotations=torn)).grants == (CardGrant(1, 6), CardGrant(3, 2))


def test_a_whole_card_is_held_whole() -> None:
    assert held_by(pod(whole=1, annotations=RECORD)).grants == (CardGrant(2, 16, whole=True),)


def test_a_record_of_more_whole_cards_than_asked_for_is_none_of_ours() -> None:
    forged = {**RECORD, "enflame.com/gcu-device-id": ",".join(map(str, range(60)))}
    with pytest.raises(RemoteContractError, match="names 60 whole cards, but the pod requests 1"):
        pod_assignment(pod(whole=1, annotations=forged), ENFLAME)


def test_a_sidecar_is_distinguished_from_an_init_container() -> None:
    found = pod(4, {"enflame.com/gcu-memory": 3}, {"enflame.com/gcu-memory": 3})
    sidecar, init = found.spec.init_containers
    both = (msgspec.structs.replace(sidecar, name="s", restart_policy="Always"), init)
    request = asked_by(msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, init_containers=both)))
    assert request.cards.units == 7
    assert [container.name for container in request.containers] == ["s", "i", "main"]


def test_wishes_are_read() -> None:
    wishes = pod_options(
        {"gcushare.io/card-policy": "spread", "gcushare.io/use-cards": "0, S60", "gcushare.io/avoid-cards": "GCU-1"}
    )
    assert wishes.card_policy == "spread"
    assert wishes.selection is not None
    assert (wishes.selection.use, wishes.selection.avoid) == (("0", "S60"), ("GCU-1",))
    assert pod_options({"someone.else/key": "x", "gcushare.io/compute-share": "proportional"}) == PodOptions()


@pytest.mark.parametrize(
    "annotations",
    [
        {"gcushare.io/node-policy": "tetris"}, {"gcushare.io/use-cards": ""}, {"gcushare.io/avoid-cards": "0,,1"},
        {"gcushare.io/cards": "0"}, {"gcushare.io/cards": "two"}, {"gcushare.io/cards": "17"},
        {"gcushare.io/use-cards": ",".join(map(str, range(65)))}, {"gcushare.io/avoid-cards": "x" * 129},
        {"gcushare.io/use-cards": "strongest,A100"}, {"gcushare.io/avoid-cards": "strongest"},
        {"gcushare.io/compute-share": "Proportional"}, {"gcushare.io/compute-share": "50"},
        {"gcushare.io/compute-share": "proportional\n"}, {"gcushare.io/compute-share": ""},
    ],
)  # fmt: skip
def test_a_malformed_wish_is_refused_by_key_and_value(annotations: dict[str, str]) -> None:
    (key,) = annotations
    with pytest.raises(RemoteContractError, match=f"annotation {key}="):
        pod_options(annotations)
