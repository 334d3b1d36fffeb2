"""Which fields of a Node are ours to remove, and which are not."""

from __future__ import annotations

import pytest

from gcushare.cli.uninstall.clean import find_leftovers, is_remembered, whole_resources
from gcushare.core.cards import BOTH_MODES
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS
from gcushare.wire.objects import Node, NodeStatus, ObjectMeta
from tests.extender_objects import inventory_text

NODE = Node(
    metadata=ObjectMeta(
        name="n1",
        annotations={ENFLAME.inventory_annotation: "{}", ENFLAME.cordon_annotation: "0", "other": "x"},
        labels={"enflame.com/gcushare": "true", "kubernetes.io/os": "linux"},
    ),
    status=NodeStatus(
        capacity={"cpu": "8", ENFLAME.count_resource: "8", ENFLAME.memory_resource: "128"},
        allocatable={"cpu": "8", ENFLAME.memory_resource: "0"},
    ),
)


def test_inventory_count_and_memory_are_ours_and_an_admins_cordon_is_not() -> None:
    left = find_leftovers(NODE, VENDORS, with_labels=False)
    gone = {ENFLAME.count_resource: None, ENFLAME.memory_resource: None}
    assert left.patch("7").body == {
        "metadata": {"resourceVersion": "7", "annotations": {ENFLAME.inventory_annotation: None}},
        "status": {"capacity": gone, "allocatable": gone},
    }


def test_whole_cards_are_ours_only_if_our_inventory_says_so() -> None:
    annotations = NODE.metadata.annotations | {ENFLAME.inventory_annotation: inventory_text([], modes=BOTH_MODES)}
    capacity = NODE.status.capacity | {ENFLAME.whole_card_resource: "2"}
    served = Node(metadata=ObjectMeta(name="n1", annotations=annotations), status=NodeStatus(capacity=capacity))

    assert whole_resources(NODE, VENDORS) == frozenset()
    assert whole_resources(served, VENDORS) == {ENFLAME.whole_card_resource}
    assert ENFLAME.whole_card_resource not in find_leftovers(served, VENDORS, with_labels=False).resources
    left = find_leftovers(served, VENDORS, with_labels=False, whole=[ENFLAME.whole_card_resource])
    assert left.resources == (ENFLAME.count_resource, ENFLAME.memory_resource, ENFLAME.whole_card_resource)


def test_a_kubelet_that_counts_only_our_whole_cards_remembers() -> None:
    node = Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(capacity={ENFLAME.whole_card_resource: "2"}))
    assert is_remembered(node, VENDORS) is None
    assert is_remembered(node, VENDORS, [ENFLAME.whole_card_resource]) is True


def test_the_label_goes_only_if_asked_to() -> None:
    assert find_leftovers(NODE, VENDORS, with_labels=False).labels == ()
    assert find_leftovers(NODE, VENDORS, with_labels=True).labels == ("enflame.com/gcushare",)


def test_another_vendors_fields_stay() -> None:
    assert find_leftovers(NODE, (ALIYUN,), with_labels=True).names == ()


@pytest.mark.parametrize(
    ("capacity", "remembered"),
    [
        pytest.param({ENFLAME.memory_resource: "128"}, True, id="counted"),
        pytest.param({ENFLAME.memory_resource: "0"}, False, id="forgotten"),
        pytest.param({}, None, id="silent"),
        pytest.param({ENFLAME.memory_resource: "0", ALIYUN.memory_resource: "5"}, True, id="one-of-two"),
    ],
)
def test_a_kubelet_remembers_what_it_counts(capacity: dict[str, str], remembered: bool | None) -> None:
    node = Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(capacity=capacity))
    assert is_remembered(node, VENDORS) is remembered
