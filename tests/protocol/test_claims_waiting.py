"""Pods that wait for claims, and for whole cards of claims nodes: on the page, in metrics, in ``inspect -w``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gcushare.core.cards import SERVES_CLAIMS
from gcushare.scheduler_extender.dashboard.dashboard_settings import Access, DashboardSettings
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs, VerbsSettings
from gcushare.vendors import ENFLAME
from tests.extender_objects import node_document, pod_document
from tests.protocol.extender_rig import extender_settings, running_replica, until
from tests.protocol.inspect_rig import Cluster, cluster
from tests.protocol.test_claims_in_one_view import claiming_pod, put_claim


@pytest.fixture
async def claims_only(tmp_path: Path) -> AsyncIterator[Cluster]:
    """One node that serves claims, with memory of its one card in use; two pods wait."""
    async with cluster(tmp_path) as found:
        found.put(node_document("serves-claims", 16, modes=(SERVES_CLAIMS,)))
        found.put(claiming_pod("new", 4, "serves-claims"), claiming_pod("huge", 14), pod_document("big", None, whole=1))
        put_claim(found, "new", "serves-claims", 0, 4)
        yield found


async def test_both_are_on_the_page_and_in_the_metrics_and_explained(claims_only: Cluster) -> None:
    verbs, page = VerbsSettings(verbs=Verbs.OFF), DashboardSettings(dashboard=Access.OPEN, page_port=0)
    settings = replace(extender_settings(), verbs=verbs, dashboard=page)
    async with running_replica(settings, claims_only.api.url) as replica:
        await until(lambda: len(replica.extender.states[0].claiming) == 2)
        shown = json.loads(await replica.get("/dashboard/api/cluster"))["waiting"]
        found = {(each["name"], each.get("units", 0), each.get("whole", False)) for each in shown}
        assert found == {("huge", 14, False), ("big", 0, True)}
        reason = 'gcushare_pods_waiting_by_reason{reason="claim",vendor="enflame"} 2.0'
        assert reason in await replica.get("/metrics")
        summary = (await replica.ask("explain/default/big"))["summary"]
        assert summary.startswith("by a claim, needs 1 whole card")

        claims_only.put(node_document("serves-whole", 16, modes=("whole",)))
        state = replica.extender.states[0]
        await until(lambda: len(state.claiming) == len(state.waiting) == 1)
        shown = json.loads(await replica.get("/dashboard/api/cluster"))["waiting"]
        assert {each["name"] for each in shown} == {"huge", "big"}


@pytest.mark.parametrize(
    ("units", "more", "lacking"),
    [
        pytest.param(None, {ENFLAME.whole_card_resource: "1"}, [], id="a whole card"),
        pytest.param(4, {ENFLAME.claims.extender_resource: "4"}, [], id="the mark for the extender"),
        pytest.param(4, {"example.com/nic": "1"}, ["example.com/nic"], id="another resource that the node lacks"),
    ],
)
async def test_what_comes_by_a_claim_is_nothing_that_a_node_lacks(
    claims_only: Cluster, units: int | None, more: dict[str, str], lacking: list[str]
) -> None:
    pod = claiming_pod("asks", units) if units is not None else pod_document("asks", None)
    pod["spec"]["containers"][0]["resources"] = {"limits": more, "requests": more}
    claims_only.put(node_document("empty", 16, modes=(SERVES_CLAIMS,)), pod)
    report = (await claims_only.call("explain", "asks", "--source=api", "-o", "json")).document
    assert report["explanation"]["state"] == "fits"
    assert {name for each in report["lacking"] for name in each["resources"]} == set(lacking)
