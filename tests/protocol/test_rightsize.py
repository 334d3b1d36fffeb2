"""``rightsize``: what workloads ask for, the most that plugins saw them use, and what would be enough."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gcushare.cli.top.rightsize import workload_of
from gcushare.core.assignments import PodRef
from gcushare.core.units import GIB
from gcushare.wire.documents.plugin_status import PodOnNode
from tests.api_objects import owned_by
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster, plugin_pod
from tests.unit.card_views import card, pod, status, use

PLUGIN = "gcushare-device-plugin-x"


def seen(name: str, card_index: int, units: int, peak_gib: float, hours: float) -> PodOnNode:
    """A pod as its plugin reports it: the most that it used, and how long ago it was seen first."""
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="seconds").replace("+00:00", "Z")
    peak = {card_index: int(peak_gib * GIB)}
    used = {card_index: GIB}
    name = f"default/{name}"
    return pod(name, {card_index: units}, used_by_card=used, highest_by_card=peak, seen_since=since)


@pytest.fixture
async def measured(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        found.put(
            a_node("node-1", 32, 32),
            *(bound_pod(f"web-{n}", "node-1", n - 1, 8, **owned_by("ReplicaSet web-5d8fbc77b6")) for n in (1, 2)),
            bound_pod("notebook", "node-1", 0, 8),
            bound_pod("batch-1", "node-1", 1, 8, **owned_by("Job batch")),
            plugin_pod(PLUGIN, "node-1"),
        )
        holders = (
            *(seen("web-1", 0, 8, 1.5, 70), seen("web-2", 1, 8, 2.5, 30)),
            *(seen("notebook", 0, 8, 7.9, 48), seen("batch-1", 1, 8, 1.0, 3)),
        )
        answer = status(card(0, use=use(9.4)), card(1, use=use(3.5)), pods=holders)
        found.front.backends[f"pods/http:{PLUGIN}:32767"] = msgspec.json.encode(answer).decode()
        yield found


async def test_each_workload_gets_a_request_that_its_highest_use_fits(measured: Cluster) -> None:
    ran = await measured.call("rightsize")
    assert ran.code == 0, ran.err
    rows = [line.split() for line in ran.lines[1:]]
    assert rows[0][:9] == ["Deployment", "default/web", "2", "8.0", "2.5", "3", "d", "3", "(GB)"], "of 2.875"
    assert rows[0][9] == "10.0", "2 pods of 8 need 3 each"
    assert [row[1] for row in rows[:3]] == ["default/web", "default/batch", "default/notebook"]
    assert "seen for less than" in ran.lines[2]
    assert ran.lines[3].endswith("it needs more than it asks for")
    assert ran.lines[4] == "3 workloads; the suggestions would free 10.0 GiB"


async def test_programs_get_numbers_and_null_for_what_is_not_known_yet(measured: Cluster) -> None:
    document = (await measured.call("rightsize", "-o", "json", "-n", "default")).document
    assert [(each["workload"], each["suggestedUnits"], each["freedBytes"]) for each in document["workloads"]] == [
        ("Deployment default/web", 3, 10 * GIB),
        ("Job default/batch", None, 0),
        ("Pod default/notebook", 10, -2 * GIB),
    ]
    assert (await measured.call("rightsize", "-o", "json", "-n", "other")).document["workloads"] == []
    refused = await measured.call("rightsize", "-o", "wide")
    assert (refused.code, "'wide' has no form for sizes" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("controller", "workload"),
    [
        ("", "Pod a/p"),
        ("StatefulSet db", "StatefulSet a/db"),
        ("ReplicaSet web-5d8fbc77b6", "Deployment a/web"),
        ("ReplicaSet made-by-hand", "ReplicaSet a/made-by-hand"),
    ],
)
def test_a_workload_is_what_its_request_is_written_in(controller: str, workload: str) -> None:
    assert workload_of(PodRef("u", "a", "p", controller=controller)) == workload
