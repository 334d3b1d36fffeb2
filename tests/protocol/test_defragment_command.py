"""``gcushare defragment`` against an API server."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import aiohttp

from gcushare.cli.subcommands import SUBCOMMANDS
from tests.api_objects import owned_by
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
