"""Cleaning Nodes over real HTTP, while a kubelet writes back what it still counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from gcushare.cli.uninstall.clean import Cleaner, UninstallSettings
from gcushare.core.errors import ConflictError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare_playground.apiserver import ApiServer
from gcushare_playground.apiserver.objects import JsonObject
from tests.api_objects import delete, find, merge_into
from tests.unit.apiserver_objects import node

MEMORY, COUNT = ENFLAME.memory_resource, ENFLAME.count_resource


@pytest.fixture
def server(server: ApiServer) -> ApiServer:
    server.registry.put(_node("n1"))
    return server


def _node(name: str) -> JsonObject:
    made = node(name)
    made["metadata"] |= {"annotations": {ENFLAME.inventory_annotation: "{}"}, "labels": ENFLAME_LABEL}
    made["status"] = {"capacity": {"cpu": "8", COUNT: "8", MEMORY: "128"}, "allocatable": {"cpu": "8", COUNT: "8"}}
    return made


ENFLAME_LABEL = {ENFLAME.label_key: "true"}
BOTH_WAYS = '{"version":1,"unit":"1","cards":[],"modes":["memory","whole"]}'


def write_back(server: ApiServer, amount: str, **others: str) -> None:
    """What the kubelet of n1 does with its next status update: ``amount`` of memory is what it counts."""
    merge_into(server, "Node", "n1", {"status": {"capacity": {MEMORY: amount, **others}}}, status_only=True)


ALL = UninstallSettings(vendor="enflame", remove_node_label=True)


async def clean(
    server: ApiServer, settings: UninstallSettings = ALL, around: Callable[[KubeClient], Any] = lambda client: client
) -> tuple[frozenset[str], list[str]]:
    """Clean, with a client of the test's ``around`` the real one."""
    lines: list[str] = []
    async with KubeClient(KubeConfig(server.url, "test")) as client:
        return await Cleaner(around(client), settings, lines.append).run(), lines


def assert_clean(server: ApiServer, *names: str, **left: str) -> None:
    """Nothing of ours is left on these nodes, and of others these annotations."""
    for name in names:
        found = find(server, "Node", name)
        assert found["status"]["capacity"] == {"cpu": "8"}
        assert (found["metadata"].get("annotations") or {}) == left
        assert not found["metadata"].get("labels")


async def test_every_node_is_cleaned_and_those_whose_kubelet_still_counts_are_named(server: ApiServer) -> None:
    server.registry.put(_node("n2"))
    remembering, lines = await clean(server)
    assert remembering == {"n1", "n2"}
    assert_clean(server, "n1", "n2")
    assert lines[0] == f"node/n1 cleaned: {ENFLAME.inventory_annotation}, {ENFLAME.label_key}, {COUNT}, {MEMORY}"


async def test_nodes_without_the_labels_of_the_release_are_left_alone(server: ApiServer) -> None:
    other = _node("n2")
    other["metadata"]["labels"] = {**ENFLAME_LABEL, "pool": "b"}
    server.registry.put(other)
    remembering, _ = await clean(server, UninstallSettings(vendor="enflame", nodes="pool=b"))
    assert remembering == {"n2"}
    assert MEMORY in find(server, "Node", "n1")["status"]["capacity"]
    assert MEMORY not in find(server, "Node", "n2")["status"]["capacity"]


async def test_a_run_after_the_kubelet_forgot_leaves_not_even_its_zero(server: ApiServer) -> None:
    whole = {ENFLAME.whole_card_resource: "8"}
    write_back(server, "128", **whole)
    merge_into(server, "Node", "n1", {"metadata": {"annotations": {ENFLAME.inventory_annotation: BOTH_WAYS}}})
    cleanup = UninstallSettings(vendor="enflame")
    assert (await clean(server, cleanup))[0] == {"n1"}
    write_back(server, "128", **whole)
    assert await clean(server, cleanup) == (frozenset({"n1"}), []), "it would write it back again"
    write_back(server, "0", **dict.fromkeys(whole, "0"))
    remembering, lines = await clean(server, cleanup)
    assert remembering == frozenset()
    assert find(server, "Node", "n1")["status"]["capacity"] == {"cpu": "8"}
    assert len(lines) == 1


class DyingError(Exception):
    """The program ended."""


class DyingClient:
    """A client whose program ends at a write: just before the API server has it, or just after."""

    def __init__(self, client: KubeClient, writes: int, *, after: bool) -> None:
        self._client = client
        self._writes = writes
        self._after = after

    async def list_all(self, *arguments: Any, **options: Any) -> Any:
        return await self._client.list_all(*arguments, **options)

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        self._writes -= 1
        if self._writes < 0 and not self._after:
            raise DyingError
        answer = await self._client.patch(*arguments, **options)
        if self._writes < 0:
            raise DyingError
        return answer


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("writes", range(2))
async def test_after_an_end_at_any_write_the_next_run_does_what_is_left(
    server: ApiServer, writes: int, after: bool
) -> None:
    whole = ENFLAME.whole_card_resource
    delete(server, "Node", "n1")
    for name in ("n1", "n2"):
        made = _node(name)
        made["metadata"]["annotations"] = {ENFLAME.inventory_annotation: BOTH_WAYS, "theirs": "stays"}
        made["status"]["capacity"][whole] = "8"
        server.registry.put(made)
    with pytest.raises(DyingError):
        await clean(server, around=partial(DyingClient, writes=writes, after=after))
    await clean(server)
    assert_clean(server, "n1", "n2", theirs="stays")


async def clean_disturbed(server: ApiServer, disturb: Callable[[], None], *, times: int = 1) -> list[str]:
    """Clean while someone else acts between what the clean-up read and what it writes, so many times."""

    class DisturbedClient(DyingClient):
        async def patch(self, *arguments: Any, **options: Any) -> Any:
            self._writes -= 1
            if self._writes >= 0:
                disturb()
            return await self._client.patch(*arguments, **options)

    around = partial(DisturbedClient, writes=times, after=False)
    return (await clean(server, UninstallSettings(vendor="both", remove_node_label=True), around))[1]


async def test_a_node_that_another_system_takes_over_meanwhile_keeps_what_that_serves(server: ApiServer) -> None:
    """Between the list and the write the node is replaced by its namesake, which gpushare serves."""
    served = {"cpu": "8", ALIYUN.count_resource: "2", ALIYUN.memory_resource: "32"}

    def replace() -> None:
        delete(server, "Node", "n1")
        theirs = node("n1")
        theirs["metadata"]["labels"] = {ALIYUN.label_key: "true"}
        theirs["status"] = {"capacity": served, "allocatable": served}
        server.registry.put(theirs)

    assert await clean_disturbed(server, replace) == []
    found = find(server, "Node", "n1")
    assert (found["metadata"]["labels"], found["status"]["capacity"]) == ({ALIYUN.label_key: "true"}, served)


async def test_a_node_that_never_stands_still_is_named_and_the_others_are_cleaned(server: ApiServer) -> None:
    numbers = itertools.count()
    server.registry.put(_node("n2"))

    def disturb() -> None:
        merge_into(server, "Node", "n1", {"metadata": {"labels": {"beat": str(next(numbers))}}})

    with pytest.raises(ConflictError, match="n1"):
        await clean_disturbed(server, disturb, times=100)
    assert not find(server, "Node", "n2")["metadata"].get("annotations")
    assert ENFLAME.inventory_annotation in find(server, "Node", "n1")["metadata"]["annotations"]
    await clean(server, UninstallSettings(vendor="enflame"))
    assert not find(server, "Node", "n1")["metadata"].get("annotations")
