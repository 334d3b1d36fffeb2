"""Which card an admin means, and what the Node's annotation says afterwards: each command is one guarded write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from gcushare.cli.cordon.cordon import ATTEMPTS, CordonRequest, decide_annotation, set_cordon
from gcushare.core.errors import ConflictError, NotFoundError, Refused, RemoteContractError, RetryableError
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.nodes import encode_inventory, parse_card_names
from gcushare.wire.objects import Node, ObjectMeta
from tests.builders import card, inventory
from tests.played_api import Asked, PlayedApi

CORDONED = ENFLAME.cordon_annotation


def annotations_of(vendor: Vendor, *uuids: str) -> dict[str, str]:
    offered = inventory(*(card(index, uuid=uuid) for index, uuid in enumerate(uuids)))
    return {vendor.inventory_annotation: encode_inventory(offered)}


NODE = annotations_of(ENFLAME, "GCU-a", "GCU-b", "GCU-c")


def cordon(card: str, annotations: Mapping[str, str] = NODE, **changes: object) -> CordonRequest:
    return CordonRequest("n", card, is_cordon=True, **changes)  # type: ignore[arg-type]  # a test's shorthand


def uncordon(card: str) -> CordonRequest:
    return CordonRequest("n", card, is_cordon=False)


@pytest.mark.parametrize(
    ("before", "card", "after"),
    [
        pytest.param("", "1", "GCU-b", id="the first"),
        pytest.param("", "GCU-b", "GCU-b", id="by uuid"),
        pytest.param("2", "1", "2,GCU-b", id="with another"),
        pytest.param(" 2 ,GCU-a,", "1", "2,GCU-a,GCU-b", id="with values written by hand"),
    ],
)
def test_a_cordon_adds_the_uuid_of_the_card(before: str, card: str, after: str) -> None:
    written, message = decide_annotation(cordon(card), NODE | {CORDONED: before})
    assert written == {CORDONED: after}
    assert message == "card 1 (GCU-b) of node n cordoned: no new pods, running ones stay"


@pytest.mark.parametrize("before", ["1", "GCU-b", "0,GCU-b"])
def test_a_card_that_is_cordoned_by_any_name_is_not_cordoned_twice(before: str) -> None:
    written, message = decide_annotation(cordon("1"), NODE | {CORDONED: before})
    assert (written, message) == ({}, "card 1 (GCU-b) of node n is cordoned already")


@pytest.mark.parametrize(
    ("before", "card", "after"),
    [
        pytest.param("1", "1", None, id="the last word removes the annotation"),
        pytest.param("0,1,GCU-b", "GCU-b", "0", id="every name of the card goes"),
        pytest.param("0,GCU-gone", "GCU-gone", "0", id="a card that is gone"),
        pytest.param("7,10,1", "1", "7,10", id="indexes stay in their order"),
    ],
)
def test_an_uncordon_removes_every_word_that_names_the_card(before: str, card: str, after: str | None) -> None:
    written, _ = decide_annotation(uncordon(card), NODE | {CORDONED: before})
    assert written == {CORDONED: after}


def test_uncordoning_what_is_not_cordoned_changes_nothing() -> None:
    decided = decide_annotation(uncordon("2"), NODE | {CORDONED: "1"})
    assert decided == ({}, "card 2 (GCU-c) of node n is not cordoned")


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        (NODE, r"node n has no card '7'; its cards are 0 \(GCU-a\), 1 \(GCU-b\), 2 \(GCU-c\)"),
        ({}, r"shares no cards.*enflame.com/gcushare=true or gpushare=true"),
        ({ENFLAME.inventory_annotation: "{"}, r"gcushare.io/enflame-inventory of node n: .*cannot be read"),
    ],
    ids=["no such card", "no inventory", "unreadable"],
)
def test_a_card_that_is_not_found_is_refused_with_what_there_is(annotations: dict[str, str], says: str) -> None:
    with pytest.raises((Refused, RemoteContractError), match=says):
        decide_annotation(cordon("7"), annotations)


def test_a_card_that_two_vendors_have_needs_the_vendors_name() -> None:
    both = NODE | annotations_of(ALIYUN, "GPU-a")
    with pytest.raises(Refused, match="enflame and aliyun: say which with --vendor"):
        decide_annotation(cordon("0"), both)
    for request in (cordon("0", vendor=ALIYUN), cordon("GPU-a")):
        assert list(decide_annotation(request, both)[0]) == [ALIYUN.cordon_annotation]


OTHERS = "GCU-other"


class WrittenNode(PlayedApi):
    """A Node that keeps what is written, as the API server merges it.

    For the first ``collisions`` times somebody cordons another card between our reading and our writing.
    """

    def __init__(self, collisions: int) -> None:
        self.annotations = dict(NODE)
        self.version = 1
        self._collisions = collisions

    @property
    def words(self) -> frozenset[str]:
        return parse_card_names(self.annotations.get(CORDONED, ""))

    async def answer(self, asked: Asked) -> Node:
        if asked.name != "n":
            raise NotFoundError(f"{asked.name} is not there")
        if asked.verb == "patch":
            if self._collisions:
                self._collisions -= 1
                self._write({CORDONED: ",".join(sorted(self.words | {OTHERS}))})
            if asked.body["metadata"]["resourceVersion"] != str(self.version):
                raise ConflictError("written meanwhile")
            self._write(asked.annotations)
        return Node(metadata=ObjectMeta(name="n", resource_version=str(self.version), annotations=self.annotations))

    def _write(self, annotations: dict[str, str | None]) -> None:
        merged = {**self.annotations, **annotations}
        self.annotations = {key: value for key, value in merged.items() if value is not None}
        self.version += 1


def test_a_collision_is_decided_again_on_what_the_other_wrote() -> None:
    node = WrittenNode(collisions=3)
    said = asyncio.run(set_cordon(cordon("2"), node.client))
    assert said.startswith("card 2 (GCU-c) of node n cordoned")
    assert node.words == {"GCU-c", OTHERS}


def test_a_node_that_never_rests_is_given_up_with_nothing_written() -> None:
    node = WrittenNode(collisions=ATTEMPTS)
    with pytest.raises(RetryableError, match="changed by others 5 times in a row; nothing was written"):
        asyncio.run(set_cordon(cordon("2"), node.client))
    assert node.words == {OTHERS}


def test_a_node_that_does_not_exist_is_refused_with_where_to_look() -> None:
    with pytest.raises(NotFoundError, match="there is no node 'm'; 'kubectl get nodes' lists them"):
        asyncio.run(set_cordon(CordonRequest("m", "0", is_cordon=True), WrittenNode(0).client))
