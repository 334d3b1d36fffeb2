"""Which fields of a Node are ours to remove, and which are not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gcushare.cli.uninstall.clean import find_leftovers
from gcushare.core.cards import BOTH_MODES
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED
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
    theirs = replace(NODE, status=replace(NODE.status, capacity=capacity))
    served = replace(theirs, metadata=replace(NODE.metadata, annotations=annotations))

    assert ENFLAME.whole_card_resource not in find_leftovers(theirs, VENDORS, with_labels=False).resources
    left = find_leftovers(served, VENDORS, with_labels=False)
    assert left.resources == (ENFLAME.count_resource, ENFLAME.memory_resource, ENFLAME.whole_card_resource)


@pytest.mark.parametrize(
    ("labels", "capacity", "is_removed"),
    [
        pytest.param({ENFLAME.label_key: "true"}, {}, True, id="labelled"),
        pytest.param({}, {ENFLAME.memory_resource: "0"}, True, id="memory"),
        pytest.param({}, {}, False, id="neither"),
    ],
)
def test_the_0_of_whole_cards_goes_when_the_inventory_is_gone(
    labels: dict[str, str], capacity: dict[str, str], is_removed: bool
) -> None:
    status = NodeStatus(capacity={**capacity, ENFLAME.whole_card_resource: "0"})
    found = find_leftovers(
        Node(metadata=ObjectMeta(name="n1", labels=labels), status=status), VENDORS, with_labels=False
    )
    assert (ENFLAME.whole_card_resource in found.resources) is is_removed


def test_the_label_goes_only_if_asked_to() -> None:
    assert find_leftovers(NODE, VENDORS, with_labels=False).labels == ()
    assert find_leftovers(NODE, VENDORS, with_labels=True).labels == ("enflame.com/gcushare",)


def test_another_vendors_fields_stay() -> None:
    assert find_leftovers(NODE, (ALIYUN,), with_labels=True).names == ()


@pytest.mark.parametrize(
    ("found", "removed"),
    [
        ({KEPT_MARK: "true", SCALE_DOWN_DISABLED: "true"}, {KEPT_MARK, SCALE_DOWN_DISABLED}),
        ({KEPT_MARK: "true", SCALE_DOWN_DISABLED: "false"}, {KEPT_MARK}),
        ({SCALE_DOWN_DISABLED: "true"}, set()),
    ],
)
def test_what_kept_the_node_from_scale_down_goes_unless_it_is_an_admins(
    found: dict[str, str], removed: set[str]
) -> None:
    node = replace(NODE, metadata=replace(NODE.metadata, annotations=found), status=NodeStatus())
    assert set(find_leftovers(node, VENDORS, with_labels=False).annotations) == removed
