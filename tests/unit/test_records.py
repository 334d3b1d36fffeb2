import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import RemoteContractError
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
    record = decode_record(ENFLAME, annotations)
    assert record is not None
    assert record.units_by_card(5) == {1: 3, 3: 2}


def test_shares_do_not_count_before_the_plugin_wrote_the_record() -> None:
    record = decode_record(ENFLAME, {"enflame.com/gcu-device-id": "1,3", UNITS_BY_CARD: "1,4"})
    assert record is not None
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
