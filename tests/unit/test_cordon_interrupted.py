"""An admin's cordons, each command cut off at its write: what others wrote stays, and the command again ends right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gcushare.cli.cordon.cordon import CordonRequest, set_cordon
from gcushare.core.errors import ConflictError
from gcushare.kube.patches import Patch
from gcushare.kube.resources import Resource
from gcushare.vendors import ENFLAME
from gcushare.wire.nodes import parse_card_names
from gcushare.wire.objects import Node, ObjectMeta
from tests.unit.cut_off import CutOff, Ended, every_cut_off
from tests.unit.test_cordon_annotation import NODE

CORDONED = ENFLAME.cordon_annotation
COMMANDS = (
    CordonRequest("n", "1", is_cordon=True),
    CordonRequest("n", "GCU-c", is_cordon=True),
    CordonRequest("n", "GCU-b", is_cordon=False),
    CordonRequest("n", "2", is_cordon=False),
    CordonRequest("n", "GCU-a", is_cordon=True),
)
BY_HAND = "0"
"""What a hand wrote before: it stays until a command names that card."""


class WrittenNode:
    """A Node that keeps what is written, as the API server merges it, and every state that it was in."""

    def __init__(self, cut_off: CutOff, *, is_crossed: bool = False) -> None:
        self.annotations = NODE | {CORDONED: BY_HAND}
        self.version = 1
        self.cut_off = cut_off
        self._is_crossed = is_crossed

    @property
    def words(self) -> frozenset[str]:
        return parse_card_names(self.annotations.get(CORDONED, ""))

    async def get(self, resource: Resource[Any], name: str) -> Node:
        version = str(self.version)
        return Node(metadata=ObjectMeta(name="n", resource_version=version, annotations=dict(self.annotations)))

    async def patch(self, resource: Resource[Any], name: str, patch: Patch) -> None:
        assert isinstance(patch.body, dict)
        with self.cut_off.write():
            if self._is_crossed:
                self._is_crossed = False
                self._write({CORDONED: ",".join(sorted(self.words | {"GCU-other"}))})
            if patch.body["metadata"]["resourceVersion"] != str(self.version):
                raise ConflictError("written meanwhile")
            self._write(patch.body["metadata"]["annotations"])

    def _write(self, annotations: dict[str, str | None]) -> None:
        merged = {**self.annotations, **annotations}
        self.annotations = {key: value for key, value in merged.items() if value is not None}
        self.version += 1


async def cordon_all(node: WrittenNode) -> None:
    """Give every command; one that is cut off left the state before it or the one after it, and is given again."""
    for request in COMMANDS:
        before = node.words
        try:
            await set_cordon(request, node)
        except Ended:
            assert node.words in states(before, request)
            await set_cordon(request, node)


def states(before: frozenset[str], request: CordonRequest) -> tuple[frozenset[str], ...]:
    """Before and after: of other cards, and of those that a hand or somebody else wrote, not a word changes."""
    names = {"1": {"1", "GCU-b"}, "GCU-b": {"1", "GCU-b"}, "GCU-c": {"2", "GCU-c"}, "2": {"2", "GCU-c"}}
    uuid = max(names[request.card])
    after = before | {uuid} if request.is_cordon else before - names[request.card]
    return before, after, before | {"GCU-other"}, after | {"GCU-other"}


@pytest.mark.parametrize("is_crossed", [False, True], ids=["alone", "somebody else writes in between"])
def test_cordons_that_are_cut_off_at_any_write_end_as_undisturbed_ones(is_crossed: bool) -> None:
    undisturbed = WrittenNode(CutOff(), is_crossed=is_crossed)
    asyncio.run(cordon_all(undisturbed))
    assert undisturbed.cut_off.writes >= 4, "card 0 is cordoned by hand already"
    for cut_off in every_cut_off():
        node = WrittenNode(cut_off, is_crossed=is_crossed)
        asyncio.run(cordon_all(node))
        assert node.annotations == undisturbed.annotations, cut_off
