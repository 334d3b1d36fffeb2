"""More nodes than a page holds are read exactly once and laid out whole; how long it took is recorded, not asserted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from tests.protocol.inspect_rig import a_node, bound_pod, cluster

NODES = 600
CARDS = 8


async def test_hundreds_of_nodes_are_read_in_pages_and_every_one_is_shown(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with cluster(tmp_path) as found:
        for number in range(NODES):
            found.put(a_node(f"node-{number}", *[16] * CARDS, address=f"10.1.{number // 256}.{number % 256}"))
            found.put(bound_pod(f"pod-{number}", f"node-{number}", number % CARDS, 3))
        found.api.requests.clear()
        started = time.perf_counter()
        ran = await found.show("--source=api")
        record_property("seconds_for_the_table", round(time.perf_counter() - started, 2))
        lists = [asked.attributes.resource for asked in found.api.requests.of("kubernetes-admin")]
        assert sorted(lists) == ["nodes", "nodes", "pods", "pods"], "500 objects a page, each page once"
        assert ran.code == 0
        assert [line.split()[0] for line in ran.lines[1 : NODES + 1]] == [f"node-{n}" for n in range(NODES)]
        assert ran.lines[-1] == f"{3 * NODES}/{16 * CARDS * NODES} (2%) "
        narrow = await found.call("--source=api", columns=80)
        assert max(map(len, narrow.out.splitlines())) <= 80
        document = json.loads((await found.show("--source=api", "-o", "json")).out)
        assert document["cluster"] == {
            "nodes": NODES,
            "cards": CARDS * NODES,
            "total": 16 * CARDS * NODES,
            "allocated": 3 * NODES,
            "percent": 2,
        }
