"""Our bytes against the generated messages, an independent reading of the same protocol."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import MAX_CARDS
from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import device_ids_of_card, encode_device_id
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
    picked = [entry for container in (request.available,) for entry in container.of_card(15, 17_772)]
    (answer,) = pb.PreferredAllocationResponse.FromString(encode_preferred_response([picked])).container_responses
    assert list(answer.deviceIDs) == ids


def test_lists_of_both_lengths_are_joined() -> None:
    short, long = device_ids(["000", "x"]), device_ids(["0000", "001"])
    assert (short + short).text() == ["000", "000", "x", "x"]
    assert (short + long).text() == ["000", "0000", "001", "x"]
    assert (long + short).first(3) == ["0000", "001", "000"]
    assert (short + long).count_by_card() == {0: 3}


def test_ids_that_must_be_included_can_be_answered_like_the_others() -> None:
    ids = device_ids_of_card(2, 4)
    (request,) = decode_preferred_request(preferred((ids, ids[:2], 3)))
    (answer,) = pb.PreferredAllocationResponse.FromString(
        encode_preferred_response([request.must_include.of_card(2, 2)])
    ).container_responses
    assert list(answer.deviceIDs) == ids[:2]


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
