"""How many more nodes the waiting pods need: ``kubectl inspect`` and ``simulate`` give one answer."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.runtime.entry import ProcessContext
from tests.extender_objects import Document, pod_document
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


async def simulate(rig: Cluster, *words: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    process = ProcessContext(("--pending", *words), rig.environ(), stdout, stderr)
    return await asyncio.to_thread(SUBCOMMANDS["simulate"].run, process), stdout.getvalue(), stderr.getvalue()


async def test_both_commands_give_the_same_answer(crowded: Cluster) -> None:
    ran = await crowded.call("nodes-needed", "node-1", "-o", "json")
    code, simulated, _ = await simulate(crowded, "--node-like", "node-1", "-o", "json")
    assert (json.loads(ran.out), json.loads(simulated), ran.code, code) == (ANSWER, ANSWER, 0, 0)
    text = (await crowded.call("nodes-needed")).out
    assert text == ("6 pods wait for cards; present nodes have room for 1\n2x16: 2 more nodes hold 5 pods\n")


async def test_a_node_that_takes_no_pods_has_no_room(crowded: Cluster) -> None:
    cordoned: Document = a_node("node-2", 16, 16)
    cordoned["spec"] = {"unschedulable": True}
    crowded.put(cordoned)
    ran = await crowded.call("nodes-needed", "-o", "json")
    assert json.loads(ran.out)["fitNow"] == 1
