"""What /metrics says of the scheduler's calls is what happened: each counted once, under its own vendor and reason."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from gcushare.vendors import ALIYUN, ENFLAME
from gcushare_playground.apiserver import FailBefore, Fault
from tests.extender_objects import node_document, on_card, pod_document
from tests.protocol.extender_rig import ExtenderRig, eight_cards, extender_settings, until

_LINE = re.compile(r"^(gcushare_[a-z_]+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'([a-z]+)="([^"]*)"')


@pytest.fixture
async def rig() -> AsyncIterator[ExtenderRig]:
    async with ExtenderRig() as running:
        yield running


async def figures(rig: ExtenderRig, name: str, **wanted: str) -> dict[tuple[str, ...], float]:
    """The figures above 0 of one metric by the values of their other labels, in the order of the labels' names."""
    _, text = await rig.get("/metrics")
    found: dict[tuple[str, ...], float] = {}
    for series, labels, value in _LINE.findall(text):
        reported = dict(_LABEL.findall(labels))
        if series == name and wanted.items() <= reported.items() and float(value):
            found[tuple(reported[key] for key in sorted(reported) if key not in wanted)] = float(value)
    return found


async def results(rig: ExtenderRig, verb: str) -> dict[tuple[str, ...], float]:
    """Answers by reason, result and vendor."""
    return await figures(rig, "gcushare_extender_results_total", verb=verb)


async def test_a_failed_bind_counts_for_the_vendor_whose_pod_it_is() -> None:
    async with ExtenderRig(extender_settings(vendors=(ENFLAME, ALIYUN))) as rig:
        await rig.add_nodes(node_document("gpu", 12, vendor=ALIYUN))
        refused, forbidden = await rig.add_pods(
            pod_document("a", 12, vendor=ALIYUN), pod_document("b", 1, vendor=ALIYUN)
        )
        await rig.filter(refused, ["gpu"])
        await rig.add_pods(pod_document("x", 4, vendor=ALIYUN, node="gpu", record=on_card(0, 4)))
        await until(lambda: "x" in rig.replica.held())
        await rig.bind(refused, "gpu", is_filtered=True)
        rig.api.faults.on(Fault(FailBefore(403, "Forbidden"), "/binding", "POST", count=1))
        await rig.bind(forbidden, "gpu")
        await rig.post("bind", b"not JSON")

        assert await results(rig, "bind") == {
            ("declined", "refused", "aliyun"): 1.0,
            ("forbidden", "error", "aliyun"): 1.0,
            ("malformed", "refused", "enflame"): 1.0,
        }


async def test_calls_that_end_in_an_error_of_http_are_counted_too(rig: ExtenderRig) -> None:
    for verb in ("prioritize", "preempt"):
        assert (await rig.post(verb, b"not JSON"))[0] == 400
        assert await results(rig, verb) == {("malformed", "refused", "enflame"): 1.0}


async def test_one_that_has_not_read_the_cluster_counts_it() -> None:
    async with ExtenderRig(starts=False) as rig:
        await rig.api.stop()
        rig.replica = await rig.add_replica()
        await rig.post("filter", b"{}")
        assert await results(rig, "filter") == {("not_ready", "turned_away", "enflame"): 1.0}
        await rig.api.start()


async def test_what_became_of_events_and_of_large_requests_is_reported(rig: ExtenderRig) -> None:
    await rig.add_nodes(eight_cards())
    (pod,) = await rig.add_pods(pod_document("a", 20))
    await rig.filter(pod, ["node-1"])
    await until(lambda: rig.replica.extender.recorder.counters["posted"] == 1)
    await rig.post("filter", json.dumps("x" * 10_000_000).encode())

    assert await figures(rig, "gcushare_events_total") == {("posted",): 1.0}
    assert await figures(rig, "gcushare_refusal_reports_total") == {("reported", "enflame"): 1.0}
    assert await figures(rig, "gcushare_turned_away_total") == {("size",): 1.0}
