"""``gcushare defragment --execute`` against an API server; a few lines here stand for controllers and scheduler."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.runtime.entry import ProcessContext
from gcushare_playground.apiserver import Deletion, FailAfter, Fault
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.protocol.inspect_rig import Cluster, Tty, a_node, bound_pod, cluster
from tests.protocol.test_defragment_command import owned
from tests.running import running

Document = dict[str, Any]


class Noticing(io.StringIO):
    """A stream that calls back, on the loop it was made on, when a line with a word is written."""

    def __init__(self, word: str = "", then: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._word, self._then, self._loop = word, then, asyncio.get_running_loop()

    def write(self, text: str) -> int:
        if self._word and self._word in text:
            self._loop.call_soon_threadsafe(self._then)
        return super().write(text)


async def execute(
    rig: Cluster, *words: str, answer: str = "y\n", patience: str = "20s", stderr: Noticing | None = None
) -> tuple[int, str, str]:
    stdout, errors = io.StringIO(), stderr or Noticing()
    process = ProcessContext(("--execute", "--patience", patience, *words), rig.environ(), stdout, errors)
    stdin = Tty(answer) if answer else io.StringIO("y\n")
    code: int = await asyncio.to_thread(SUBCOMMANDS["defragment"].run, process, stdin=stdin)
    return code, stdout.getvalue(), errors.getvalue()


@asynccontextmanager
async def replacing(rig: Cluster, make: Callable[[str], Document | None], *, but: str = "") -> AsyncIterator[list[str]]:
    """Let evicted pods end, and put in their place what ``make`` gives for their names; yields the names in order.

    The pod ``but`` ends by other means.
    """
    ended: list[str] = []

    def step() -> bool:
        for pod in rig.api.store.list("pods", "default"):
            name = pod["metadata"]["name"]
            if pod["metadata"].get("deletionTimestamp") and name != but:
                ended.append(name)
                rig.delete(name)
                if (new := make(name)) is not None:
                    rig.put(new)
        return False

    async with running(rig.api.store.until(step, None), "replacing"):
        yield ended


def names(rig: Cluster) -> set[str]:
    return {pod["metadata"]["name"] for pod in rig.api.store.list("pods", "default")}


def two_in_the_way(rig: Cluster) -> None:
    """Room for 16 units: both pods of gpu-1 have to go, and have a place on gpu-2 and on gpu-3."""
    rig.put(a_node("gpu-1", 16), a_node("gpu-2", 16), a_node("gpu-3", 16))
    rig.put(owned(bound_pod("one", "gpu-1", 0, 5)), owned(bound_pod("two", "gpu-1", 0, 6)))
    rig.put(bound_pod("fixed-2", "gpu-2", 0, 10), bound_pod("fixed-3", "gpu-3", 0, 11))


def elsewhere(name: str) -> Document | None:
    node, units = {"two": ("gpu-2", 6), "one": ("gpu-3", 5)}[name]
    return owned(bound_pod(f"{name}-again", node, 0, units))


def allow(rig: Cluster, allowed: int) -> None:
    """Say how many disruptions a budget over all pods allows; the first call makes it."""
    if rig.api.store.get("poddisruptionbudgets.policy", "keep") is None:
        named = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
        rig.put({**named, "spec": {"selector": {}}})
    resource, key = BY_NAME["poddisruptionbudgets.policy"], Key("default", "keep")
    status = {"disruptionsAllowed": allowed}
    rig.api.registry.update(resource, key, lambda obj: {**obj, "status": status}, status_only=True)


async def test_pods_go_one_by_one_and_then_there_is_room(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        present: list[set[str]] = []

        def make(name: str) -> Document | None:
            present.append(names(rig))
            return elsewhere(name)

        async with replacing(rig, make) as ended:
            code, text, errors = await execute(rig, "--for", "16")
        assert (code, ended) == (0, ["two", "one"])
        assert present[1] >= {"two-again"}, "the second goes once the first runs again"
        assert "There is room now: node gpu-1." in text
        assert errors.startswith("Evict default/two, default/one, one by one? [y/N] evicted default/two from gpu-1\n")


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "nothing", "no terminal"])
async def test_without_a_yes_no_pod_goes(tmp_path: Path, answer: str) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        before = names(rig)
        async with replacing(rig, elsewhere) as ended:
            code, _, errors = await execute(rig, "--for", "16", answer=answer)
        assert (ended, names(rig)) == ([], before)
        assert code == (0 if answer else 1)
        assert answer or "no one can be asked here; with --yes these pods are evicted: default/two" in errors


async def test_a_budget_that_refuses_to_the_end_stops_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        allow(rig, 0)
        async with replacing(rig, elsewhere) as ended:
            code, text, _ = await execute(rig, "--for", "16", "--yes", "-o", "json", patience="1s")
        executed = json.loads(text)["executed"]
        assert (code, ended, executed["moved"], executed["hasRoom"]) == (4, [], [], False)
        assert "pod default/two stays" in executed["stopped"]
        assert "disruption budget" in executed["stopped"]


async def test_a_budget_that_gives_way_in_time_is_waited_for(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        allow(rig, 0)
        async with replacing(rig, elsewhere) as ended:
            stderr = Noticing("waiting: ", lambda: allow(rig, 1))
            code, _, errors = await execute(rig, "--for", "16", "--yes", stderr=stderr)
        assert (code, ended) == (0, ["two", "one"])
        assert errors.count("waiting: ") == 1


async def test_an_eviction_whose_answer_was_lost_counts(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        fault = rig.api.faults.on(Fault(FailAfter(), path="/pods/two/eviction", method="POST", count=1))
        async with replacing(rig, elsewhere) as ended:
            code, _, _ = await execute(rig, "--for", "16", "--yes")
        assert (code, ended, fault.hits) == (0, ["two", "one"], 1)


async def test_the_plan_waits_for_a_pod_that_ends_as_after_a_run_that_was_cut_off(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        rig.api.registry.delete(BY_NAME["pods"], Key("default", "two"), Deletion(grace_s=30))

        def replaced() -> None:
            rig.delete("two")
            rig.put(owned(bound_pod("two-again", "gpu-2", 0, 6)))

        stderr = Noticing("waiting for pods", replaced)
        async with replacing(rig, elsewhere, but="two") as ended:
            code, _, errors = await execute(rig, "--for", "16", "--yes", stderr=stderr)
        assert (code, ended) == (0, ["one"])
        assert "waiting for pods that end or were just made: default/two\nevicted default/one" in errors


async def test_it_stops_when_the_next_pod_may_not_be_moved_any_more(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)

        def make(name: str) -> Document | None:
            exempt = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
            rig.rewrite(
                {"metadata": {"namespace": "default", "name": "one"}},
                lambda old: {
                    **old,
                    "metadata": {**old["metadata"], "annotations": {**old["metadata"]["annotations"], **exempt}},
                },
            )
            return elsewhere(name)

        async with replacing(rig, make) as ended:
            code, text, _ = await execute(rig, "--for", "16", "--yes")
        assert (code, ended) == (4, ["two"])
        assert "stopped after 1 of 2 pods: pod default/one may not be moved any more" in text


async def test_it_stops_when_the_freed_room_is_taken(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        async with replacing(rig, lambda name: owned(bound_pod(f"{name}-again", "gpu-1", 0, 6))) as ended:
            code, text, _ = await execute(rig, "--for", "16", "--yes")
        assert (code, ended) == (4, ["two"])
        assert "stopped after 1 of 2 pods" in text
        assert "one" in names(rig)


async def test_it_stops_when_no_pod_runs_in_its_place(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)
        async with replacing(rig, lambda _: None) as ended:
            code, text, _ = await execute(rig, "--for", "16", "--yes", patience="1s")
        assert (code, ended) == (4, ["two"])
        assert "after 1 s no pod runs in its place" in text


async def test_room_that_the_waiting_pod_has_taken_is_a_success(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        two_in_the_way(rig)

        def make(name: str) -> Document | None:
            if name == "one":
                rig.put(bound_pod("large", "gpu-1", 0, 16))
            return elsewhere(name)

        async with replacing(rig, make):
            code, text, _ = await execute(rig, "--for", "16", "--yes")
        assert code == 0
        assert "The room on node gpu-1 is taken already, by default/large." in text
