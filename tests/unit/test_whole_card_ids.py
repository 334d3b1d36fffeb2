import pytest

from gcushare.core.cards import Card
from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import decode_whole_card_id, encode_whole_card_id, is_device_id, is_whole_card_id
from gcushare.wire.kubelet.device_lists import encode_id_entry, encode_preferred_response, encode_whole_card_list
from gcushare.wire.protos import deviceplugin_pb2 as pb


@pytest.mark.parametrize("index", range(16))
def test_an_id_names_its_card_and_cannot_be_taken_for_a_unit(index: int) -> None:
    device_id = encode_whole_card_id(index)
    assert decode_whole_card_id(device_id) == index
    assert not is_device_id(device_id)


@pytest.mark.parametrize("foreign", ["card-16", "card-01", "card-", "card-x", "000", "GPU-8f2e", "card-²", ""])
def test_what_is_no_whole_card_is_refused(foreign: str) -> None:
    assert not is_whole_card_id(foreign)
    with pytest.raises(RemoteContractError, match="is not a whole card"):
        decode_whole_card_id(foreign)


def test_a_number_beyond_what_python_reads_is_refused_and_shown_in_part() -> None:
    with pytest.raises(RemoteContractError, match=f"device id 'card-{'9' * 75}' is not a whole card"):
        decode_whole_card_id("card-" + "9" * 5000)


def test_the_list_carries_health_and_numa_nodes() -> None:
    cards = [
        (Card(index=0, uuid="a", memory_bytes=1, numa_node=1), True),
        (Card(index=3, uuid="b", memory_bytes=1), False),
    ]
    devices = pb.ListAndWatchResponse.FromString(encode_whole_card_list(cards)).devices
    assert [(d.ID, d.health, [n.ID for n in d.topology.nodes]) for d in devices] == [
        ("card-0", "Healthy", [1]),
        ("card-3", "Unhealthy", []),
    ]


def test_ids_are_answered_as_the_generated_message_reads_them() -> None:
    answer = encode_preferred_response([[encode_id_entry("card-0"), encode_id_entry("card-12")]])
    (container,) = pb.PreferredAllocationResponse.FromString(answer).container_responses
    assert list(container.deviceIDs) == ["card-0", "card-12"]
