"""From processes on cards to the pods that they belong to, through the real programs: metrics, top and cards."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare.cli.inspect.__main__ import main_gcushare
from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.cluster.metrics_text import parse_figures
from gcushare.core.units import GIB
from gcushare.runtime.entry import ProcessContext
from gcushare_playground.picture import poll_until
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.fake_proc import FakeProc
from tests.playground.census import Census
from tests.playground.clusters import listening_url, show_program, started

NODE = NodePlan(name="n1", card_bytes=(16 * GIB,))


@pytest.mark.slow
async def test_a_pod_that_uses_more_than_it_was_granted_is_named_by_everything_that_tells_of_use(
    tmp_path: Path,
) -> None:
    proc = FakeProc(tmp_path / "proc")
    flags = ("--poll-interval", "0.2", "--pod-use", "--proc-root", str(proc.root))
    async with started(ClusterPlan(nodes=(NODE,), wait_factor=0.1, plugin_flags=flags)) as census:
        for name, units in (("greedy", 4), ("modest", 6)):
            await census.create(name, units)
        url = listening_url(census.cluster.plugins[NODE.name])
        show_program(census, NODE.name, "gcushare-device-plugin", url)
        await census.cluster.pods.until(lambda: len(census.running()) == 3, "two pods run, and the plugin's own")
        start_processes(census, proc)
        await until_reported(census, url)
        words = ["--kubeconfig", str(census.cluster.place.kubeconfig)]
        top = json.loads(await run(main_gcushare, "top", "-o", "json", *words))
        reported = [(pod["pod"], pod["grantedBytes"], pod["usedBytes"], pod["over"]) for pod in top["pods"]]
        assert reported == [
            ("default/greedy", 4 * GIB, 7 * GIB, True),
            ("default/modest", 6 * GIB, 2 * GIB, False),
        ]
        assert top["cards"][0]["unattributedBytes"] == GIB
        cards = json.loads(await run(SUBCOMMANDS["cards"].run, "--plugin", url, "-o", "json"))
        (card,) = cards["nodes"][0]["cards"]
        holders = {each["pod"]: each["usedBytes"] for each in card["holders"]}
        assert holders == {"default/greedy": 7 * GIB, "default/modest": 2 * GIB}
        assert "used 7.0 GB, over by 3.0 GB" in await run(SUBCOMMANDS["cards"].run, "--plugin", url)


def start_processes(census: Census, proc: FakeProc) -> None:
    """Two processes of one pod, one of the other and one of the host, all on the card."""
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in census.running()}
    for pid, name in ((101, "greedy"), (102, "greedy"), (201, "modest")):
        proc.start_in_pod(pid, uids[name])
    proc.start(1, "0::/init.scope\n")
    path = census.cluster.place.cards_file(NODE)
    document = json.loads(path.read_text())
    document["cards"][0].update(used=10 * GIB, processes={"101": 5 * GIB, "102": 2 * GIB, "201": 2 * GIB, "1": GIB})
    path.write_text(json.dumps(document))


async def until_reported(census: Census, url: str) -> None:
    async def look() -> str | None:
        async with census.cluster.http.get(f"{url}/metrics") as answer:
            found = parse_figures(await answer.text())
        used = found.sum("gcushare_pod_memory_used_bytes", pod_name="greedy", card="0")
        return None if used == 7 * GIB else f"{used} bytes"

    await poll_until(look, "the metrics tell what the pod uses")


async def run(main: Callable[[ProcessContext], int], *argv: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    code = await asyncio.to_thread(main, ProcessContext(argv, {"HOME": "/"}, out, err))
    assert code == 0, err.getvalue()
    return out.getvalue()
