"""A cluster whose etcd is restored from a backup: what was written since is gone, and versions are given again."""

from __future__ import annotations

import random
import shutil

import pytest

from gcushare.kube.clock import SystemClock
from gcushare.kube.collections import ObjectCache
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES
from gcushare.wire.objects import NODE, Node
from tests.e2e.control_plane import ControlPlane
from tests.e2e.waiting import until
from tests.running import running


@pytest.mark.parametrize("from_cache", [False, True])
async def test_what_was_lost_goes_and_what_comes_is_seen(from_cache: bool) -> None:
    async with ControlPlane() as cluster:
        await _create(cluster, "kept")
        await _stop(cluster)
        shutil.copytree(cluster.root / "etcd", cluster.root / "backup")
        await _start(cluster)
        seen: ObjectCache[Node] = ObjectCache(lambda _before, _after: None)
        reflector = Reflector(
            cluster.client,
            NODES,
            seen,
            decode=NODE.read,
            settings=ReflectorSettings(from_cache=from_cache),
            clock=SystemClock(),
            rng=random.Random(1),
        )
        async with running(reflector.run(), "the reflector"):
            for number in range(20):
                await _create(cluster, f"lost-{number}")
            await until(lambda: _difference(seen, 21), "all nodes are seen")
            await _stop(cluster)
            shutil.rmtree(cluster.root / "etcd")
            (cluster.root / "backup").rename(cluster.root / "etcd")
            await _start(cluster)
            for number in range(3):
                await _create(cluster, f"new-{number}")
            await until(lambda: _difference(seen, 4), "the restored nodes and the new ones are seen")


async def _difference(seen: ObjectCache[Node], wanted: int) -> str:
    names = sorted(node.metadata.name for node in seen.objects.values())
    return "" if len(names) == wanted else f"{len(names)} nodes, not {wanted}: {', '.join(names)}"


async def _create(cluster: ControlPlane, name: str) -> None:
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})


async def _stop(cluster: ControlPlane) -> None:
    for name in ("kube-apiserver", "etcd"):
        await cluster.children[name].kill()


async def _start(cluster: ControlPlane) -> None:
    await cluster.start_etcd()
    await cluster.start_api_server()
    await cluster.wait_ready()
