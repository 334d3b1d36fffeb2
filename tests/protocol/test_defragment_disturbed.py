"""``gcushare defragment --execute`` while an admin, an autoscaler, a controller or a second run changes the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare_playground.apiserver import Deletion
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.protocol.inspect_rig import Cluster, bound_pod, cluster
from tests.protocol.test_defragment_command import owned
from tests.protocol.test_defragment_execute import (
    Document,
    Noticing,
    elsewhere,
    execute,
    names,
    replacing,
    two_in_the_way,
)

NODES = BY_NAME["nodes"]


def cordon(rig: Cluster, name: str) -> None:
    """Close a node to new pods."""
    rig.api.registry.rewrite(NODES, Key("", name), lambda old: {**old, "spec": {"unschedulable": True}})


def remove(rig: Cluster, name: str) -> None:
    """Remove a node."""
    rig.api.registry.delete(NODES, Key("", name), Deletion(grace_s=0))


def fill(rig: Cluster, name: str) -> None:
    """Take the last room of a node."""
    rig.put(bound_pod(f"fills-{name}", name, 0, 3))


def replace_by_its_namesake(rig: Cluster, name: str) -> None:
    """Put a pod of the same name and another uid in a pod's place, as a StatefulSet does."""
    rig.delete("one")
    rig.put(owned(bound_pod("one", "gpu-1", 0, 5)))


@pytest.mark.parametrize(
    ("disturb", "node", "words"),
    [
        pytest.param(cordon, "gpu-3", "node 'gpu-3' takes no pods any more", id="an admin cordons the target"),
        pytest.param(cordon, "gpu-1", "node 'gpu-1' takes no pods any more", id="an admin cordons the source"),
        pytest.param(remove, "gpu-3", "node 'gpu-3' takes no pods any more", id="an autoscaler removes the target"),
        pytest.param(fill, "gpu-3", "", id="another pod takes the target's room"),
        pytest.param(
            replace_by_its_namesake, "", "pod default/one may not be moved any more", id="a controller replaces a pod"
        ),
    ],
)
async def test_a_change_between_two_evictions_stops_the_second(
    tmp_path: Path, disturb: Callable[[Cluster, str], None], node: str, words: str
) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)

        def make(name: str) -> Document | None:
            disturb(rig, node)
            return elsewhere(name)

        async with replacing(rig, make) as ended:
            code, text, _ = await execute(rig, "--for", "16", "--yes")
        assert (code, ended) == (4, ["two"])
        assert "stopped after 1 of 2 pods" in text
        assert words in text
        assert "one" in names(rig)


@pytest.mark.parametrize("node", ["gpu-1", "gpu-2"])
async def test_a_cordon_while_the_question_is_asked_lets_no_pod_go(tmp_path: Path, node: str) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        before = names(rig)
        async with replacing(rig, elsewhere) as ended:
            code, text, _ = await execute(rig, "--for", "16", stderr=_CordonFirst(rig, node))
        assert (code, ended, names(rig)) == (4, [], before)
        assert f"node '{node}' takes no pods any more" in text


class _CordonFirst(Noticing):
    """Standard error of a run: when the question is written, a node is closed before the answer is read."""

    def __init__(self, rig: Cluster, node: str) -> None:
        super().__init__()
        self._rig, self._node, self._api_loop = rig, node, asyncio.get_running_loop()

    def write(self, text: str) -> int:
        if "one by one?" in text:
            asyncio.run_coroutine_threadsafe(self._cordon(), self._api_loop).result(timeout=10)
        return super().write(text)

    async def _cordon(self) -> None:
        cordon(self._rig, self._node)


async def test_of_two_runs_none_evicts_while_a_pod_of_the_other_is_away(tmp_path: Path) -> None:
    """Another run evicted the next pod: this one waits until as many run as before, and has no other pod go."""
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)

        def make(name: str) -> Document | None:
            rig.api.registry.delete(BY_NAME["pods"], Key("default", "one"), Deletion(grace_s=30))
            return elsewhere(name)

        async with replacing(rig, make, but="one") as ended:
            code, text, _ = await execute(rig, "--for", "16", "--yes", patience="5s")
        assert (code, ended) == (4, ["two"])
        assert "no pod runs in its place" in text


@pytest.mark.parametrize("second", ["16", "10"], ids=["the same request", "another request"])
async def test_two_runs_at_once_have_one_pod_away_each_and_evict_none_that_the_other_moved(
    tmp_path: Path, second: str
) -> None:
    """Two admins give the command at the same moment; each run asks the API server by itself."""
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        away: list[int] = []

        def make(name: str) -> Document | None:
            away.append(sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in rig.api.store.list("pods", "")))
            return elsewhere(name)

        async with replacing(rig, make) as ended:
            found = await asyncio.gather(
                execute(rig, "--for", "16", "--yes"), execute(rig, "--for", second, "--yes"), return_exceptions=True
            )
        ends = [each for each in found if not isinstance(each, BaseException)]
        assert len(ends) == len(found), found
        assert {code for code, _, _ in ends} <= {0, 4}
        assert sorted(ended) == sorted(set(ended)), "no pod goes twice"
        assert set(ended) <= {"one", "two"}
        assert all(others <= 1 for others in away), "each run has one pod away at most"
        assert {"fixed-2", "fixed-3"} <= names(rig)
