"""Device ids, and our bytes against the generated messages, an independent reading of the same protocol."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import MAX_CARDS
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.wire.kubelet.device_ids import (
    MAX_UNITS_PER_CARD,
    UNITS_PER_PAGE,
    are_own_ids,
    cards_of_ids,
    check_fits_kubelet,
    decode_device_id,
    decode_whole_card_id,
    device_ids_of_card,
    encode_device_id,
    encode_whole_card_id,
    is_device_id,
    is_whole_card_id,
    list_bytes,
)
from gcushare.wire.kubelet.plugin_messages import (
    DeviceIds,
    check_no_foreign,
    decode_allocate_request,
    decode_preferred_request,
    device_ids,
    encode_devices,
    encode_id_entry,
    encode_preferred_response,
    encode_whole_card_list,
)
from gcushare.wire.protos import deviceplugin_pb2 as pb

UNITS = st.integers(0, MAX_CARDS - 1).flatmap(
    lambda index: st.tuples(
        st.just(index),
        st.one_of(st.integers(0, UNITS_PER_PAGE[index]), st.integers(0, MAX_UNITS_PER_CARD[index] - 1)),
    )
)


@given(UNITS)
def test_an_id_names_its_card_and_unit_and_nothing_else(named: tuple[int, int]) -> None:
    device_id = encode_device_id(*named)
    assert len(device_id) == (3 if named[1] < UNITS_PER_PAGE[named[0]] else 4)
    assert device_id.isascii()
    assert device_id.isprintable()
    assert " " not in device_id
    assert decode_device_id(device_id) == named
    assert is_device_id(device_id)


def test_ids_are_fixed_permanently() -> None:
    """They stand in kubelets' checkpoints: a change here orphans running pods."""
    named = [(0, 0), (0, 15), (1, 0), (7, 32_767), (15, 0), (0, 185_555), (0, 185_556), (7, 81_919), (15, 17_672)]
    ids = ["000", "00F", "L00", ",%t", "}00", "K~~", "0000", "1*Pj", "0}00"]
    assert [encode_device_id(*pair) for pair in named] == ids


def test_ids_of_a_card_agree_with_single_ids_and_do_not_move_when_it_grows() -> None:
    small, large = device_ids_of_card(3, 9_000), device_ids_of_card(3, 20_000)
    assert large[:9_000] == small
    assert [large[0], large[8_836], large[19_999]] == [encode_device_id(3, unit) for unit in (0, 8_836, 19_999)]
    assert device_ids_of_card(3, 0) == []


@pytest.mark.parametrize(
    ("foreign", "origin"),
    [
        ("GPU-1234-_-5", "Aliyun's gpushare or the Go gcushare"),
        ("GPU-8f2e", "NVIDIA's device plugin"),
        ("00", "its layout is unknown"),
        ("0é0", "its layout is unknown"),
        (" 00", "its layout is unknown"),
        ("00000", "its layout is unknown"),
        ("", "its layout is unknown"),
    ],
)
def test_an_id_of_another_layout_is_explained_and_never_misread(foreign: str, origin: str) -> None:
    assert not is_device_id(foreign)
    with pytest.raises(RemoteContractError, match=origin):
        decode_device_id(foreign)


@pytest.mark.parametrize(
    ("units", "why"),
    [
        ({16: 4}, "card index 16 cannot be named"),
        ({0: 17_627_821}, "card 0 has 17627821 units, and at most 17627820"),
        ({0: 260_000}, "1 card with 260000 units in all: 4234444 bytes"),
        (dict.fromkeys(range(8), 32_769), "8 cards with 262152 units in all: 4194432 bytes"),
    ],
)
def test_what_the_kubelet_would_not_take_is_refused_with_numbers(units: dict[int, int], why: str) -> None:
    with pytest.raises(Refused, match=why):
        check_fits_kubelet(units)


@pytest.mark.parametrize(
    ("index", "unit", "last"), [(16, 0, 15), (-1, 0, 15), (0, -1, 17_627_819), (0, 17_627_820, 17_627_819)]
)
def test_what_the_layout_cannot_name_is_refused(index: int, unit: int, last: int) -> None:
    with pytest.raises(Refused, match=f"cannot be named in a device id; accepted: 0 to {last}$"):
        encode_device_id(index, unit)


def test_a_card_has_all_of_its_ids_or_none() -> None:
    ids = device_ids_of_card(15, 20_000)
    assert [len(ids), ids[0], ids[17_671], ids[17_672]] == [20_000, "}00", "~~~", "0}00"]
    last = MAX_UNITS_PER_CARD[15]
    assert (last, encode_device_id(15, last - 1)) == (1_678_840, "~~~~")
    with pytest.raises(Refused, match="unit 1678840 of card 15 cannot be named"):
        device_ids_of_card(15, last + 1)


def test_mib_units_of_eight_cards_of_80_gib_fit_a_kubelet_built_with_16_mib() -> None:
    check_fits_kubelet(dict.fromkeys(range(8), 32_768))
    units = dict.fromkeys(range(8), 81_920)
    with pytest.raises(Refused, match="in all: "):
        check_fits_kubelet(units)
    check_fits_kubelet(units, 16 << 20)
    ids = [device_id for index in units for device_id in device_ids_of_card(index, 81_920)]
    assert len(set(ids)) == 655_360
    assert len(encode_devices(ids, is_healthy=True)) == list_bytes(units) == 10_647_952


def test_of_a_long_foreign_id_so_much_is_shown() -> None:
    with pytest.raises(RemoteContractError, match=f"'{'x' * 80}'"):
        decode_device_id("x" * 100)
    with pytest.raises(RemoteContractError, match=f"device id 'card-{'9' * 75}' is not a whole card"):
        decode_whole_card_id("card-" + "9" * 5000)


@pytest.mark.parametrize(
    ("second", "third", "ours"),
    [(b"0A~", b"zz!", True), (b"0 ~", b"zzz", False), (b"000", b"z\xffz", False), (b"0\n0", b"0\n0", False)],
)
def test_the_later_characters_of_many_ids_are_checked_at_once(second: bytes, third: bytes, ours: bool) -> None:
    assert are_own_ids(second, third) is ours


def test_ids_are_counted_by_card() -> None:
    assert cards_of_ids([*device_ids_of_card(0, 3), *device_ids_of_card(5, 2)]) == {0: 3, 5: 2}


@pytest.mark.parametrize("index", [0, 15])
def test_an_id_names_its_card_and_cannot_be_taken_for_a_unit(index: int) -> None:
    device_id = encode_whole_card_id(index)
    assert decode_whole_card_id(device_id) == index
    assert not is_device_id(device_id)


@pytest.mark.parametrize("foreign", ["card-16", "card-01", "card-", "card-x", "000", "GPU-8f2e", "card-²", ""])
def test_what_is_no_whole_card_is_refused(foreign: str) -> None:
    assert not is_whole_card_id(foreign)
    with pytest.raises(RemoteContractError, match="is not a whole card"):
        decode_whole_card_id(foreign)


OURS = st.builds(
    encode_device_id, st.integers(0, MAX_CARDS - 1), st.one_of(st.integers(0, 9_000), st.integers(0, 1_600_000))
)
FOREIGN = ["GPU-1-_-3", "x", "", "é0", "0é", "00\t", "a" * 200, " 000", "\n\x03000", "0\n\x03", "000 ", "00000"]
ANY = st.one_of(OURS, st.sampled_from(FOREIGN))


def preferred(*containers: tuple[list[str], list[str], int]) -> bytes:
    message = pb.PreferredAllocationRequest()
    for available, must_include, size in containers:
        message.container_requests.add(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
    return message.SerializeToString()


@given(st.lists(OURS, max_size=40, unique=True), st.lists(OURS, max_size=40, unique=True))
def test_a_device_list_reads_back_through_the_generated_message(healthy: list[str], unhealthy: list[str]) -> None:
    message = pb.ListAndWatchResponse.FromString(
        encode_devices(healthy, is_healthy=True) + encode_devices(unhealthy, is_healthy=False)
    )
    assert [(device.ID, device.health) for device in message.devices] == [
        *((device_id, "Healthy") for device_id in healthy),
        *((device_id, "") for device_id in unhealthy),
    ]


@pytest.mark.slow
@given(st.lists(st.tuples(st.lists(ANY), st.lists(ANY), st.integers(0, 2**31 - 1)), max_size=3))
def test_any_preferred_request_is_read_as_the_generated_message_reads_it(
    containers: list[tuple[list[str], list[str], int]],
) -> None:
    decoded = decode_preferred_request(preferred(*containers))
    assert [(sorted(r.available.text()), sorted(r.must_include.text()), r.size) for r in decoded] == [
        (sorted(available), sorted(must), size) for available, must, size in containers
    ]


@given(st.lists(st.lists(ANY), max_size=3))
def test_any_allocate_request_is_read_as_the_generated_message_reads_it(containers: list[list[str]]) -> None:
    message = pb.AllocateRequest()
    for ids in containers:
        message.container_requests.add(devices_ids=ids)
    decoded = decode_allocate_request(message.SerializeToString())
    assert [sorted(ids.text()) for ids in decoded] == [sorted(ids) for ids in containers]


def test_ids_of_one_card_are_picked_from_a_shuffled_list() -> None:
    ids = [device_id for index in range(8) for device_id in device_ids_of_card(index, 500)]
    random.Random(7).shuffle(ids)
    (request,) = decode_preferred_request(preferred((ids, [], 300)))
    assert request.available.count_by_card() == dict.fromkeys(range(8), 500)
    picked = request.available.of_card(5, 300)
    (answer,) = pb.PreferredAllocationResponse.FromString(encode_preferred_response([picked])).container_responses
    assert len(set(answer.deviceIDs)) == 300
    assert set(answer.deviceIDs) <= set(device_ids_of_card(5, 500))


@pytest.mark.parametrize("must_include", [0, 2])
def test_ids_of_both_lengths_are_read_and_answered_as_they_came(must_include: int) -> None:
    ids = device_ids_of_card(15, 17_772)
    random.Random(7).shuffle(ids)
    (request,) = decode_preferred_request(preferred((ids, ids[:must_include], 17_772)))
    assert request.available.is_padded, "the fast way, not the generated messages'"
    assert (request.available.text(), request.must_include.text()) == (ids, ids[:must_include])
    picked = request.available.of_card(15, 17_772)
    (answer,) = pb.PreferredAllocationResponse.FromString(encode_preferred_response([picked])).container_responses
    assert list(answer.deviceIDs) == ids


def test_lists_of_both_lengths_are_joined() -> None:
    short, long = device_ids(["000", "x"]), device_ids(["0000", "001"])
    assert (short + short).text() == ["000", "000", "x", "x"]
    assert (short + long).text() == ["000", "0000", "001", "x"]
    assert (long + short).first(3) == ["0000", "001", "000"]
    assert (short + long).count_by_card() == {0: 3}


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x12\x00",
        b"\xff\xff",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\x02\x0a\x09",
    ],
)
def test_what_is_no_such_message_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteContractError, match="the kubelet's"):
        decode_preferred_request(body)
    with pytest.raises(RemoteContractError, match="the kubelet's"):
        decode_allocate_request(body)


def test_foreign_ids_are_counted_but_never_taken_for_a_card() -> None:
    ids = device_ids(["GPU-1-_-3", *device_ids_of_card(0, 2)])
    assert (len(ids), ids.count_by_card()) == (3, {0: 2})
    with pytest.raises(RemoteContractError, match="1 device id is not of this plugin, the first 'GPU-1-_-3'"):
        check_no_foreign(ids)
    check_no_foreign(DeviceIds(b""))


def test_the_list_carries_health_and_numa_nodes() -> None:
    devices = pb.ListAndWatchResponse.FromString(encode_whole_card_list({0: 1, 3: None}, {0})).devices
    assert [(d.ID, d.health, [n.ID for n in d.topology.nodes]) for d in devices] == [
        ("card-0", "Healthy", [1]),
        ("card-3", "Unhealthy", []),
    ]


def test_ids_are_answered_as_the_generated_message_reads_them() -> None:
    answer = encode_preferred_response([[encode_id_entry("card-0"), encode_id_entry("card-12")]])
    (container,) = pb.PreferredAllocationResponse.FromString(answer).container_responses
    assert list(container.deviceIDs) == ["card-0", "card-12"]
