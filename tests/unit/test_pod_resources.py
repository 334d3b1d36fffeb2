"""The kubelet's List answer read as bytes, against the generated messages that define what it means."""

import contextlib
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import RemoteContractError
from gcushare.wire.kubelet.device_ids import device_ids_of_card, encode_device_id
from gcushare.wire.kubelet.pod_resources import decode_holdings
from gcushare.wire.protos import podresources_pb2 as pb

RESOURCE = "enflame.com/gcu-memory"


def answer(*devices: tuple[str, list[str]], pod: str = "a") -> pb.ListPodResourcesResponse:
    """One pod with one container that holds these (resource, ids), one entry each."""
    container = pb.ContainerResources(name="c0", cpu_ids=[3, 700])
    for resource, ids in devices:
        container.devices.add(resource_name=resource, device_ids=ids)
    return pb.ListPodResourcesResponse(pod_resources=[pb.PodResources(name=pod, namespace="d", containers=[container])])


def as_kubelet(*ids: str, resource: str = RESOURCE) -> list[tuple[str, list[str]]]:
    """One entry per id, as the stock kubelet answers."""
    return [(resource, [each]) for each in ids]


def read(message: pb.ListPodResourcesResponse, resource: str = RESOURCE) -> dict[tuple[str, str], set[str]]:
    found = decode_holdings(message.SerializeToString(), resource)
    return {(each.pod, each.container): set(each.ids.text()) for each in found}


def test_a_run_of_short_and_long_ids_is_read_whole() -> None:
    ids = device_ids_of_card(15, 17_772)
    random.Random(7).shuffle(ids)
    others = as_kubelet("GPU-1", resource="nvidia.com/gpu")
    (found,) = decode_holdings(answer(*others, *as_kubelet(*ids), *others).SerializeToString(), RESOURCE)
    assert found.ids.text() == ids
    assert found.ids.count_by_card() == {15: 17_772}


def test_ids_of_another_layout_are_kept_apart() -> None:
    (found,) = decode_holdings(
        answer(*as_kubelet("GCU-1-_-0", *device_ids_of_card(1, 2), "\x01ab")).SerializeToString(), RESOURCE
    )
    assert found.ids.count_by_card() == {1: 2}
    assert set(found.ids.foreign) == {"GCU-1-_-0", "\x01ab"}


def test_several_ids_in_one_entry_and_entries_with_a_numa_node_are_read_too() -> None:
    message = answer((RESOURCE, device_ids_of_card(2, 4)))
    message.pod_resources[0].containers[0].devices[0].topology.nodes.add(ID=1)
    assert read(message) == {("d/a", "c0"): set(device_ids_of_card(2, 4))}


def test_a_resource_name_too_long_for_the_short_form_is_read_slowly() -> None:
    name = f"example.com/{'x' * 130}"
    assert read(answer(*as_kubelet("000", "001", resource=name)), name) == {("d/a", "c0"): {"000", "001"}}


LONG = [encode_device_id(15, unit) for unit in (17_672, 99_999)]
_IDS = st.lists(
    st.sampled_from([*device_ids_of_card(0, 9), *device_ids_of_card(5, 9), *LONG, "GPU-1", "zz", "", " 000"]),
    max_size=12,
)
_DEVICES = st.lists(
    st.tuples(st.sampled_from([RESOURCE, "nvidia.com/gpu", "enflame.com/gcu-memoro"]), _IDS), max_size=8
)


@pytest.mark.slow
@given(st.lists(_DEVICES, max_size=4))
def test_every_answer_means_what_the_generated_messages_say(pods: list[list[tuple[str, list[str]]]]) -> None:
    message = pb.ListPodResourcesResponse()
    expected: dict[tuple[str, str], set[str]] = {}
    for number, devices in enumerate(pods):
        message.pod_resources.extend(answer(*devices, pod=f"p{number}").pod_resources)
        ids = set(itertools.chain.from_iterable(ids for resource, ids in devices if resource == RESOURCE))
        if ids:
            expected[f"d/p{number}", "c0"] = ids
    assert read(message) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x0a\x05abc", id="cut short"),
        pytest.param(b"\x0a\x80", id="a length without its end"),
        pytest.param(b"\x0b", id="a group"),
        pytest.param(b"\x0a\x04\x0a\x02\xff\xfe", id="a name that is no text"),
        pytest.param(b"<html>", id="a page"),
    ],
)
def test_what_is_no_answer_is_an_error_of_the_remote_side(body: bytes) -> None:
    with pytest.raises(RemoteContractError, match=r"pod resources answer|kubelet's message"):
        decode_holdings(body, RESOURCE)


@given(st.binary(max_size=60))
def test_no_bytes_do_anything_else_than_be_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(RemoteContractError):
        assert all(len(found.ids) for found in decode_holdings(body, RESOURCE))


@pytest.mark.parametrize("others", [("0é",), ("00\t",), ("0é", "0é"), ("é0",)])
def test_ids_of_three_bytes_that_are_no_text_of_ours_are_foreign(others: tuple[str, ...]) -> None:
    """Read as a run of ours, they would be counted on a card, and could not be written out."""
    (found,) = decode_holdings(answer(*as_kubelet("000", *others, "001")).SerializeToString(), RESOURCE)
    assert (found.ids.count_by_card(), found.ids.foreign) == ({0: 2}, others)


def test_bytes_that_are_no_text_are_refused_in_a_run_too() -> None:
    body = answer(*as_kubelet("000", "abc", "001")).SerializeToString().replace(b"abc", b"0\xff\xfe")
    with pytest.raises(RemoteContractError, match="not UTF-8"):
        decode_holdings(body, RESOURCE)
