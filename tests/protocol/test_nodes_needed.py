"""How many more nodes the waiting pods need: ``kubectl inspect`` and ``simulate`` give one answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.extender_objects import pod_document
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster


@pytest.fixture
async def crowded(tmp_path: Path) -> AsyncIterator[Cluster]:
    """12 units are free, 6 on each card; 3 pods of 8 wait, and a gated one."""
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16, 16), bound_pod("a", "node-1", 0, 10), bound_pod("b", "node-1", 1, 10))
        gated = pod_document("gated", 8)
        gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        found.put(*(pod_document(f"wait-{number}", 8) for number in range(5)), pod_document("small", 6), gated)
        yield found


ANSWER: dict[str, Any] = {
    "version": 1,
    "waiting": 6,
    "fitNow": 1,
    "leftOut": 0,
    "classes": [{"nodeClass": "2x16", "nodes": 2, "pods": 5, "tooLarge": 0, "present": 1, "wanted": 3}],
}


async def test_the_answer_is_for_people_and_for_programs(crowded: Cluster) -> None:
    ran = await crowded.call("nodes-needed", "node-1", "-o", "json")
    assert (json.loads(ran.out), ran.code) == (ANSWER, 0)
    text = (await crowded.call("nodes-needed")).out
    assert text == ("6 pods wait for cards; present nodes have room for 1\n2x16: 2 more nodes hold 5 pods\n")


async def test_one_pod_or_a_namespace_is_asked_about_and_a_class_that_no_node_has(crowded: Cluster) -> None:
    async def needs(*words: str) -> tuple[int, int]:
        (found,) = json.loads((await crowded.call("nodes-needed", *words, "-o", "json")).out)["classes"]
        return found["nodes"], found["tooLarge"]

    assert await needs("--pods", "default/wait-1") == (1, 0)
    assert await needs("--pods", "elsewhere") == (0, 0)
    assert await needs("8x8") == (1, 0)
    assert await needs("8x4") == (0, 5)
    ran = await crowded.call("nodes-needed", "--pods", "default/unknown")
    assert (ran.code != 0, "no pod 'default/unknown' waits" in ran.err) == (True, True)
    ran = await crowded.call("nodes-needed", "no-such")
    assert (ran.code != 0, "accepted: a node's name, or CARDSxUNITS" in ran.err) == (True, True)
