"""What is read of a pod: what it asks for, its options, and the record in its annotations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment, CardGrant
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.requests import PodRequest
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS, Vendor
from gcushare.wire.annotations import (
    CORRECTED,
    UNITS_BY_CARD,
    PodRecord,
    corrected_text,
    decode_record,
    encode_record,
    record_keys,
)
from gcushare.wire.dra.claims import problem_of_both_ways
from gcushare.wire.objects import Pod
from gcushare.wire.pod_options import PodOptions, pod_options
from gcushare.wire.pods import pod_assignment, pod_request
from tests.builders import present
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
    return present(pod_assignment(bound, ENFLAME))


def asked_by(bound: Pod) -> PodRequest:
    return present(pod_request(bound, ENFLAME))


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


CARDS = st.lists(st.integers(0, 63), min_size=1, max_size=8, unique=True).map(tuple)
RECORDS = st.builds(
    PodRecord,
    card_indexes=CARDS,
    card_units=st.integers(0, 10**6),
    pod_units=st.integers(0, 10**6),
    assigned=st.booleans(),
    assign_time_ns=st.integers(0, 2**63 - 1),
    whole=st.booleans(),
)


@given(st.sampled_from(VENDORS), RECORDS)
def test_a_record_survives_the_way_through_annotations(vendor: Vendor, record: PodRecord) -> None:
    annotations = encode_record(vendor, record)
    assert decode_record(vendor, annotations) == record
    assert annotations.keys() <= set(record_keys(vendor))


def test_the_annotations_are_the_manuals() -> None:
    record = PodRecord(card_indexes=(0,), card_units=16, pod_units=8, assigned=True, assign_time_ns=1662452889753946045)
    assert encode_record(ENFLAME, record) == {
        "enflame.com/gcu-device-assign-time": "1662452889753946045",
        "enflame.com/gcu-device-assigned": "true",
        "enflame.com/gcu-device-id": "0",
        "enflame.com/gcu-device-memory": "16",
        "enflame.com/gcu-device-memory-request": "8",
    }
    assert encode_record(ALIYUN, record).keys() == {
        "ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_DEV", "ALIYUN_COM_GPU_MEM_POD", "ALIYUN_COM_GPU_MEM_ASSIGNED",
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME",
    }  # fmt: skip


def test_a_record_with_the_card_alone_is_enough() -> None:
    record = decode_record(ALIYUN, {"ALIYUN_COM_GPU_MEM_IDX": "3"})
    assert record == PodRecord(card_indexes=(3,), card_units=0, pod_units=0)


def test_no_record_is_none() -> None:
    assert decode_record(ENFLAME, {"ALIYUN_COM_GPU_MEM_IDX": "3"}) is None


@pytest.mark.parametrize("value", ["-1", "zero", "", "0,", "1.0", "9" * 21, "0x1", "²"])
def test_a_malformed_card_names_the_key_and_the_value(value: str) -> None:
    with pytest.raises(RemoteContractError, match=r"enflame\.com/gcu-device-id=") as caught:
        decode_record(ENFLAME, {"enflame.com/gcu-device-id": value})
    assert "is not a whole number" in str(caught.value)


@pytest.mark.parametrize("key", [ENFLAME.record.card_units, ENFLAME.record.pod_units])
def test_units_that_no_node_has_are_refused(key: str) -> None:
    with pytest.raises(RemoteContractError, match=f"{key}=10000001 is more than any node has"):
        decode_record(ENFLAME, {"enflame.com/gcu-device-id": "0", key: "10000001"})


def test_a_card_named_twice_is_refused() -> None:
    with pytest.raises(RemoteContractError, match="names a card twice"):
        decode_record(ENFLAME, {"enflame.com/gcu-device-id": "2,2"})


@given(CARDS, st.data())
def test_unequal_shares_survive_too_and_count_for_a_pod_that_was_served(
    cards: tuple[int, ...], data: st.DataObject
) -> None:
    shares = tuple(data.draw(st.integers(1, 100)) for _ in cards)
    served = PodRecord(card_indexes=cards, card_units=200, pod_units=sum(shares), assigned=True, card_shares=shares)
    assert decode_record(ENFLAME, encode_record(ENFLAME, served)) == served
    assert served.units_by_card(sum(shares)) == dict(zip(cards, shares, strict=True))


@pytest.mark.parametrize(
    "forged", ["", "1", "1,2,3", "0,4", "1,5", "-1,6", "x,2", "5", "1;4", "9" * 40 + ",1", "\u0661,4"]
)
def test_shares_that_do_not_add_up_to_the_request_say_nothing(forged: str) -> None:
    annotations = {"enflame.com/gcu-device-id": "1,3", "enflame.com/gcu-device-assigned": "true", UNITS_BY_CARD: forged}
    assert present(decode_record(ENFLAME, annotations)).units_by_card(5) == {1: 3, 3: 2}


def test_shares_do_not_count_before_the_plugin_wrote_the_record() -> None:
    record = present(decode_record(ENFLAME, {"enflame.com/gcu-device-id": "1,3", UNITS_BY_CARD: "1,4"}))
    assert record.units_by_card(5) == {1: 3, 3: 2}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("0->1", "0->1"),
        ("0,1->1", "0,1->1"),
        ("<b>x</b>", ""),
        ("0->1\nERROR", ""),
        ("٠->1", ""),
        ("0->" + "1" * 99, ""),
    ],
)
def test_only_a_correction_in_the_plugins_form_is_shown(written: str, shown: str) -> None:
    assert corrected_text({CORRECTED: written}) == shown
