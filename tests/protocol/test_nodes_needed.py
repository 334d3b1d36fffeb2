"""``nodes-needed`` and ``defragment``, from the command line to the API server."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.vendors import ENFLAME
from tests.api_objects import owned_by
from tests.extender_objects import pod_document
from tests.protocol.commands import Ran, run_command
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster


async def defragment(rig: Cluster, *words: str) -> Ran:
    return await run_command(SUBCOMMANDS["defragment"].run, *words, environ=rig.environ())


async def test_the_one_pod_that_comes_again_is_named_with_its_new_place(tmp_path: Path) -> None:
    async with cluster(tmp_path) as rig:
        rig.put(a_node("gpu-1", 16, 16), a_node("gpu-2", 16))
        rig.put(bound_pod("web", "gpu-1", 0, 6, **owned_by("ReplicaSet web")))
        rig.put(bound_pod("alone", "gpu-1", 1, 9), bound_pod("other", "gpu-2", 0, 8))
        code, text, errors = await defragment(rig, "--for", "12")
        assert (code, errors) == (0, "")
        assert "Room on node gpu-1, card 0, once 1 pod moved:\n  default/web from gpu-1 to gpu-1, card 1" in text
        assert "not moved: 2 pods, without a controller that creates another" in text
        await evict_as_printed(rig, text, "web")
        ran = await defragment(rig, "--for", "16", "--whole", "-o", "json")
        assert (ran.code, ran.document["plan"]) == (3, None)


async def evict_as_printed(rig: Cluster, text: str, name: str) -> None:
    """Send what the printed command sends, with the uid of another pod first, which is refused."""
    (line,) = [line for line in text.splitlines() if "kubectl create" in line]
    echo, body, pipe, *command = shlex.split(line)
    assert (echo, pipe, command[:3], command[4:]) == ("echo", "|", ["kubectl", "create", "--raw"], ["-f", "-"])
    uid = json.loads(body)["deleteOptions"]["preconditions"]["uid"]
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(rig.api.url, headers=headers) as http:
        for sent, status in ((body.replace(uid, "another"), 409), (body, 201)):
            async with http.post(command[3], data=sent) as answer:
                assert answer.status == status
    pod = rig.api.store.get("pods", name)
    assert pod is None or pod["metadata"]["deletionTimestamp"]


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
    assert (ran.document, ran.code) == (ANSWER, 0)
    text = (await crowded.call("nodes-needed")).out
    assert text == ("6 pods wait for cards; present nodes have room for 1\n2x16: 2 more nodes hold 5 pods\n")


async def test_pods_that_do_not_exist_are_counted_as_if_they_waited(crowded: Cluster) -> None:
    ran = await crowded.call("nodes-needed", "--add", "3x16,2x6")
    assert ran.out == (
        "11 pods wait for cards, with 5 of --add; present nodes have room for 2\n2x16: 3 more nodes hold 9 pods\n"
    )


@pytest.mark.parametrize("value", ["40", "0x4", "1x4,2", "100001x1"])
async def test_pods_to_add_that_cannot_be_read_are_refused(crowded: Cluster, value: str) -> None:
    ran = await crowded.call("nodes-needed", "--add", value)
    assert (ran.code, "COUNTxUNITS such as 40x4, each from 1 to 100000" in ran.err) == (2, True)


async def test_a_pod_that_is_refused_needs_no_node(crowded: Cluster) -> None:
    crowded.put(pod_document("odd", 8, annotations={"gcushare.io/node-policy": "BinPack"}))
    assert (await crowded.call("nodes-needed", "node-1", "-o", "json")).document == ANSWER
    ran = await crowded.call("nodes-needed", "--pods", "default/odd")
    assert (ran.code != 0, "no pod 'default/odd' waits for GCU cards that could be given" in ran.err) == (True, True)


async def test_a_node_that_cannot_be_read_is_named_and_left_out(crowded: Cluster) -> None:
    crowded.put(a_node("node-2", 16, annotations={ENFLAME.inventory_annotation: '{"version": 99}'}))
    ran = await crowded.call("nodes-needed", "-o", "json")
    assert ran.document == ANSWER
    assert "node node-2: " in ran.err


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"allocatable": {"enflame.com/gcu-memory": "0"}}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"spec": {"unschedulable": True}},
    ],
)
async def test_room_on_a_node_that_takes_no_pods_is_no_room(tmp_path: Path, change: dict[str, Any]) -> None:
    async with cluster(tmp_path) as rig:
        node = a_node("away", 16, 16)
        rig.put({**node, **{key: node.get(key, {}) | value for key, value in change.items()}}, pod_document("waits", 8))
        (found,) = (await rig.call("nodes-needed", "-o", "json")).document["classes"]
        ran = await defragment(rig, "--for", "8", "-o", "json")
    assert (found["nodes"], found["pods"]) == (1, 1)
    assert (ran.code, ran.document["plan"]) == (3, None)


async def test_one_pod_or_a_namespace_is_asked_about_and_a_class_that_no_node_has(crowded: Cluster) -> None:
    async def needs(*words: str) -> tuple[int, int]:
        (found,) = (await crowded.call("nodes-needed", *words, "-o", "json")).document["classes"]
        return found["nodes"], found["tooLarge"]

    assert await needs("--pods", "default/wait-1") == (1, 0)
    assert await needs("--pods", "elsewhere") == (0, 0)
    assert await needs("8x8") == (1, 0)
    assert await needs("8x4") == (0, 5)
    ran = await crowded.call("nodes-needed", "--pods", "default/unknown")
    assert (ran.code != 0, "no pod 'default/unknown' waits" in ran.err) == (True, True)
    ran = await crowded.call("nodes-needed", "no-such")
    assert (ran.code != 0, "accepted: a node's name, or CARDSxUNITS" in ran.err) == (True, True)


def pooled(name: str, pool: str, **spec: Any) -> dict[str, Any]:
    node = a_node(name, 16, labels={"pool": pool, "kubernetes.io/hostname": name})
    return {**node, "spec": spec}


def restricted(name: str, **spec: Any) -> dict[str, Any]:
    pod = pod_document(name, 12)
    pod["spec"].update(spec)
    return pod


TOLERATING = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("spec", "fit_now", "nodes", "too_large"),
    [
        pytest.param({}, 1, 0, 0, id="no rule"),
        pytest.param({"nodeSelector": {"pool": "b"}}, 0, 1, 0, id="the label of a full pool"),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "b"}}, 0, 0, 1, id="one node, which is full"),
        pytest.param({"nodeSelector": {"pool": "c"}} | TOLERATING, 1, 0, 0, id="a taint that is tolerated"),
        pytest.param({"nodeSelector": {"pool": "d"}}, 0, 1, 0, id="a taint that a new node does not have"),
    ],
)
async def test_the_pods_own_rules_count_on_present_and_new_nodes(
    tmp_path: Path, spec: dict[str, Any], fit_now: int, nodes: int, too_large: int
) -> None:
    async with cluster(tmp_path) as rig:
        rig.put(pooled("a", "a"), pooled("b", "b"), bound_pod("full", "b", 0, 16))
        rig.put(pooled("c", "c", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
        rig.put(pooled("d", "d", taints=[{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]))
        rig.put(restricted("waits", **spec))
        found = (await rig.call("nodes-needed", "-o", "json")).document
        (alike,) = found["classes"]
        assert (found["fitNow"], alike["nodes"], alike["tooLarge"]) == (fit_now, nodes, too_large)
        (like_a,) = (await rig.call("nodes-needed", "a", "-o", "json")).document["classes"]
        assert like_a["tooLarge"] == (0 if fit_now else 1), "a node that is named stands for its own pool"
