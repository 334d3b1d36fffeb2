"""``top`` and ``rightsize``: the plugins' own statuses, through the API server's proxy, compared with the grants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gcushare.cli.top.rightsize import workload_of
from gcushare.core.assignments import PodRef
from gcushare.core.cards import SERVES_CLAIMS
from gcushare.core.units import GIB
from gcushare.wire.documents.plugin_status import PodOnNode
from tests.api_objects import owned_by
from tests.builders import present
from tests.extender_objects import Document, node_document
from tests.fake_proc import FakeProc
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster, plugin_pod
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.test_claims_in_one_view import put_shared, uid_of
from tests.unit.card_views import card, pod, status, use

PLUGIN = "gcushare-device-plugin-x"


def using(*used_gib: float, **options: Any) -> str:
    """What a device plugin serves for cards that use this much."""
    cards = (card(index, use=use(amount, temperature_celsius=61.4)) for index, amount in enumerate(used_gib))
    return msgspec.json.encode(status(*cards, **options)).decode()


def add_plugin(found: Cluster, node: str, answer: str) -> None:
    """Put a plugin's pod on a node; ``answer``: its status, or its URL."""
    found.put(plugin_pod(PLUGIN, node))
    found.front.backends[f"pods/http:{PLUGIN}:32767"] = answer


async def test_grants_are_shown_with_what_is_used_and_a_card_over_its_grants_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16, 16, 16), bound_pod("a", "node-1", 0, 4), bound_pod("b", "node-1", 1, 8))
        found.put(bound_pod("full", "node-1", 2, 16))
        add_plugin(found, "node-1", using(3.5, 11.0, 16.9))
        ran = await found.call("top")
        assert ran.code == 0
        assert ran.lines[1].split() == ["node-1", "0", "4.0", "3.5", "16.0", "-", "61°C", "-", "1"]
        assert ran.lines[2].split()[:9] == ["node-1", "1", "8.0", "11.0", "16.0", "-", "61°C", "-", "1"]
        assert ran.lines[2].endswith("over by 3.0: default/b")
        assert ran.lines[4].startswith("1 card holds more than its pods were granted")
        assert "note: what each pod uses is not reported: start the device plugin with --pod-use" in ran.err
        document = (await found.call("top", "-o", "json")).document
        assert [(card["usedBytes"], card["over"]) for card in document["cards"]] == [
            (int(3.5 * GIB), False),
            (11 * GIB, True),
            (int(16.9 * GIB), False),
        ]


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"args": ["--tls-cert-file", "/tls/tls.crt"]}, id="flag"),
        pytest.param({"env": [{"name": "GCUSHARE_TLS_CERT_FILE", "value": "/tls/tls.crt"}]}, id="variable"),
    ],
)
async def test_a_plugin_whose_pod_names_a_certificate_is_asked_over_https(tmp_path: Path, container: Document) -> None:
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16))
        pod = plugin_pod(PLUGIN, "node-1")
        pod["spec"]["containers"][0] |= container
        found.put(pod)
        found.front.backends[f"pods/https:{PLUGIN}:32767"] = using(1.0)
        assert (await found.call("top")).lines[1].split()[:4] == ["node-1", "0", "0.0", "1.0"]
    assert [path.split("/")[-3] for path in found.front.proxied] == [f"https:{PLUGIN}:32767"]


async def test_nodes_without_a_plugin_and_plugins_that_fail_are_reported_and_the_rest_is_shown(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16), a_node("node-2", 16), a_node("node-3", 16))
        add_plugin(found, "node-1", using(1.0))
        found.put(plugin_pod("gcushare-device-plugin-silent", "node-3"))
        ran = await found.call("top")
        assert ran.code == 1
        assert ran.lines[1].split()[:4] == ["node-1", "0", "0.0", "1.0"]
        assert ran.lines[2].split()[:4] == ["node-2", "0", "0.0", "-"]
        assert (
            "warning: node node-2: no device plugin in namespace 'kube-system' reports what is in use there" in ran.err
        )
        assert "warning: plugin kube-system/gcushare-device-plugin-silent on node-3:" in ran.err


async def test_pods_stand_below_the_cards_if_a_plugin_reports_what_each_uses(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc")
    async with (
        cluster(tmp_path) as found,
        PluginRig(cards=(16,), plugin={"pod_use": True, "proc_root": proc.root}) as rig,
    ):
        rig.bind("a", 4, card=0)
        rig.bind("b", 4, card=0)
        await rig.until_recorded("a", "b")
        for pid, name in ((7, "a"), (8, "b")):
            proc.start_in_pod(pid, rig.uid(name))
        rig.write_cards({0: {"used": 7 * GIB, "processes": {7: 6 * GIB, 8: GIB}, "process_utilization": {7: 60, 8: 5}}})
        keeper = present(rig.app.observed.pod_use)
        await rig.until(lambda: keeper.latest and any(map(_any_use, keeper.latest.by_pod.values())), "use was read")
        watch = present(rig.app.observed.over_use.watch)
        await rig.until(lambda: watch.over, "it is reported")
        found.put(a_node("node-1", 16), bound_pod("a", "node-1", 0, 4), bound_pod("b", "node-1", 0, 4))
        add_plugin(found, "node-1", rig.url)
        ran = await found.call("top")
        assert (ran.code, ran.err) == (0, "")
        assert [line.split() for line in ran.lines[-4:-1]] == [
            ["NAME", "GCU", "POD", "GRANTED(GB)", "LIMIT(GB)", "USED(GB)", "BY", "UTIL", "NOTE"],
            [
                *("node-1", "0", "default/a", "4.0", "-", "6.0", "processes", "60%"),
                *("over", "by", "2.0,", "reported", "on", "the", "pod"),
            ],
            ["node-1", "0", "default/b", "4.0", "-", "1.0", "processes", "5%"],
        ]
        assert ran.lines[-1] == "1 pod uses more than granted"
        rig.write_cards({0: {"used": 2 * GIB, "processes": {7: GIB, 8: GIB}, "process_utilization": {7: 60, 8: 5}}})
        uid = rig.uid("a")
        await rig.until(lambda: keeper.latest and keeper.latest.by_pod[uid] == {0: GIB}, "it uses less now")
        peaks = [line.split() for line in (await found.call("top", "--peak")).lines if "default/" in line]
        assert [(row[2], row[5], row[6]) for row in peaks] == [("default/a", "1.0", "6.0"), ("default/b", "1.0", "1.0")]
        document = (await found.call("top", "-o", "json")).document
        assert [(pod["pod"], pod["usedBytes"], pod["highestBytes"], pod["seenSince"]) for pod in document["pods"]] == [
            ("default/a", GIB, 6 * GIB, peaks[0][7]),
            ("default/b", GIB, GIB, peaks[1][7]),
        ]


def _any_use(by_card: Mapping[int, int]) -> bool:
    return any(by_card.values())


async def test_pods_that_share_a_claim_are_said_to_be_granted_it_together(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(node_document("serves-claims", 16, modes=(SERVES_CLAIMS,)))
        put_shared(found)
        holders = [
            pod(f"default/{name}", {0: 5}, uid=uid_of(found, name), used_by_card={0: GIB})
            for name in ("first", "second")
        ]
        add_plugin(found, "serves-claims", using(2.0, node="serves-claims", pods=tuple(holders)))
        ran = await found.call("top")
        report = (await found.call("top", "-o", "json")).document
    assert ran.lines[1].split()[:3] == ["serves-claims", "0", "5.0"]
    assert [line.rstrip().endswith("granted together with default/second") for line in ran.lines].count(True) == 1
    assert [row["sharedWith"] for row in report["pods"]] == [["default/second"], ["default/first"]]


def seen(name: str, card_index: int, units: int, peak_gib: float, hours: float) -> PodOnNode:
    """A pod as its plugin reports it: the most that it used, and how long ago it was seen first."""
    since = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="seconds").replace("+00:00", "Z")
    figures = {"used_by_card": {card_index: GIB}, "highest_by_card": {card_index: int(peak_gib * GIB)}}
    return pod(f"default/{name}", {card_index: units}, seen_since=since, **figures)


@pytest.fixture
async def measured(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        found.put(
            a_node("node-1", 32, 32),
            *(bound_pod(f"web-{n}", "node-1", n - 1, 8, **owned_by("ReplicaSet web-5d8fbc77b6")) for n in (1, 2)),
            bound_pod("notebook", "node-1", 0, 8),
            bound_pod("batch-1", "node-1", 1, 8, **owned_by("Job batch")),
        )
        holders = (
            *(seen("web-1", 0, 8, 1.5, 70), seen("web-2", 1, 8, 2.5, 30)),
            *(seen("notebook", 0, 8, 31, 48), seen("batch-1", 1, 8, 1.0, 3)),
        )
        add_plugin(found, "node-1", using(9.4, 3.5, pods=holders))
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
        ("Pod default/notebook", 32, -24 * GIB),
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
