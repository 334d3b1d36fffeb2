"""The extender over real HTTP: the manual's four pods, every endpoint, and everything that may be thrown at it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from gcushare.cluster.metrics_text import MetricsPage, parse_figures
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARD_POLICY
from gcushare_playground.apiserver import FailBefore, Fault
from tests.api_objects import an_object, merge_into
from tests.builders import card
from tests.extender_objects import node_document, on_card, pod_document
from tests.protocol.extender_rig import ExtenderRig, eight_cards, extender_settings, until

PREFIX = ENFLAME.url_prefix
REASON = "insufficient GCU Memory in one gcu device"
CARD = ENFLAME.record.card_index
RESULTS = "gcushare_extender_results_total"


@pytest.fixture
async def rig() -> AsyncIterator[ExtenderRig]:
    async with ExtenderRig() as running:
        yield running


async def figures(rig: ExtenderRig) -> MetricsPage:
    return parse_figures((await rig.get("/metrics"))[1])


async def test_the_manuals_four_pods_get_the_manuals_cards(rig: ExtenderRig) -> None:
    await rig.add_nodes(eight_cards())
    cards = []
    for number, units in enumerate((4, 8, 12), start=1):
        pod = await rig.schedule(f"gcushare-pod-{number}", units, ["node-1"])
        cards.append(pod["metadata"]["annotations"][CARD])
    (fourth,) = await rig.add_pods(pod_document("gcushare-pod-4", 20))

    assert cards == ["0", "0", "1"]
    assert (await rig.filter(fourth, ["node-1"]))["FailedNodes"] == {"node-1": REASON}
    (node,) = (await rig.get_json(f"{PREFIX}/inspect"))["nodes"]
    assert (node["totalGCU"], node["usedGCU"], node["availableGCU"]) == (128, 24, 104)
    assert [device["usedGCU"] for device in node["devices"]] == [12, 12, 0, 0, 0, 0, 0, 0]


async def test_preempt_names_the_pods_that_free_one_card_and_break_no_budget(rig: ExtenderRig) -> None:
    await rig.add_nodes(node_document("node-1", 16, 16), node_document("node-2", 16))
    for name, units, node, index in (("a", 10, "node-1", 0), ("b", 10, "node-1", 1), ("c", 6, "node-1", 1)):
        await rig.add_pods(pod_document(name, units, node=node, record=on_card(index, units), labels={"app": name}))
    await until(lambda: len(rig.replica.held()) == 3)
    uids = {name: rig.pod(name)["metadata"]["uid"] for name in ("a", "b", "c")}
    meta = {
        "node-1": {"Pods": [{"UID": uids["c"]}, {"UID": uids["a"]}], "NumPDBViolations": 0},
        "node-2": {"Pods": [], "NumPDBViolations": 0},
        "gone": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0},
    }
    budget = "PodDisruptionBudget"
    rig.api.registry.put(an_object(budget, "keep-a", spec={"selector": {"matchLabels": {"app": "a"}}}))
    preemptor = pod_document("p", 12)
    preemptor["spec"]["priority"] = 1
    (pod,) = await rig.add_pods(preemptor)
    body = json.dumps({"Pod": pod, "NodeNameToMetaVictims": meta}).encode()

    both = {"Pods": [{"UID": uid} for uid in sorted((uids["b"], uids["c"]))], "NumPDBViolations": 0}
    assert await rig.post("preempt", body) == (200, {"NodeNameToMetaVictims": {"node-1": both}})
    merge_into(rig.api, budget, "keep-a", {"status": {"disruptionsAllowed": 1}}, status_only=True)
    one = {"Pods": [{"UID": uids["a"]}], "NumPDBViolations": 0}
    assert await rig.post("preempt", body) == (200, {"NodeNameToMetaVictims": {"node-1": one}})


class TestExplain:
    async def test_a_stranger_learns_no_uid(self, rig: ExtenderRig) -> None:
        await rig.add_nodes(node_document("node-1", 16))
        await rig.schedule("bound", 10, ["node-1"])
        await rig.add_pods(pod_document("waits", 12), pod_document("refused", 4, annotations={CARD_POLICY: "best"}))
        for name in ("bound", "waits", "refused"):
            _, document = await rig.get(f"{PREFIX}/explain/default/{name}")
            readers = {"Accept": "text/plain, application/json;q=0.5"}
            _, text = await rig.get(f"{PREFIX}/explain/default/{name}", readers)
            assert rig.pod(name)["metadata"]["uid"] not in document + text
            assert text.startswith(f"pod default/{name}: ")


class TestRoot:
    async def test_metrics_tell_units_answers_and_leadership(self, rig: ExtenderRig) -> None:
        await rig.add_nodes(node_document("node-1", offered=[card(0, 16), card(1, 4)]))
        await rig.schedule("a", 10, ["node-1"])
        page = await figures(rig)
        of_units = [
            page.sum(f"gcushare_units_{each}", unit="1", vendor="enflame") for each in ("total", "granted", "free")
        ]
        assert of_units == [20, 10, 10]
        assert page.sum(RESULTS, reason="", result="fits", vendor="enflame", verb="filter") == 1
        assert page.sum("gcushare_extender_request_seconds_count", vendor="enflame", verb="bind") == 1
        assert page.sum("gcushare_leader") == 1
        assert page.least("gcushare_watch_age_seconds", resource="pods") < 60
        text = (await rig.get("/metrics"))[1]
        assert 'gcushare_fragmentation{request="4",unit="1",vendor="enflame"} 0.0' in text
        never = 'gcushare_extender_results_total{reason="forbidden",result="error",vendor="enflame",verb="bind"}'
        assert f"{never} 0.0" in text, "a first error can be seen to be one more"
        assert 'gcushare_ledger_drifts_total{vendor="enflame"} 0.0' in text


class TestHostile:
    async def test_what_is_not_json_is_reported_in_the_protocols_place(self, rig: ExtenderRig) -> None:
        for verb in ("filter", "bind"):
            status, answer = await rig.post(verb, b"not JSON")
            assert status == 200
            assert "not JSON" in answer["Error"]
        for verb in ("prioritize", "preempt"):
            status, answer = await rig.post(verb, b"not JSON")
            assert status == 400
            assert "not JSON" in answer["error"]
            assert (await figures(rig)).sum(RESULTS, reason="malformed", result="refused", verb=verb) == 1

    async def test_a_wrong_address_is_reported(self, rig: ExtenderRig) -> None:
        for method, path, status in (
            ("POST", f"{PREFIX}/guess", 404),
            ("GET", f"{PREFIX}/filter", 405),
            ("POST", f"{PREFIX}/inspect", 405),
            ("GET", f"{PREFIX}/explain/default", 404),
        ):
            async with rig.http.request(method, f"{rig.replica.url}{path}", data=b"{}") as answer:
                assert answer.status == status, path
                assert set(await answer.json()) == {"error", "status"}, path

    async def test_the_prefix_of_a_vendor_that_is_not_served_names_the_one_that_is_and_the_flag(
        self, rig: ExtenderRig
    ) -> None:
        for method, path in (("POST", "/filter"), ("POST", "/bind"), ("GET", "/inspect/node-1"), ("GET", "")):
            body = b"{}" if method == "POST" else None
            async with rig.http.request(method, f"{rig.replica.url}/gpushare-scheduler{path}", data=body) as answer:
                error = (await answer.json())["error"]
            assert answer.status == 404, path
            assert "serves enflame cards under /gcushare-scheduler" in error, path
            assert "--vendor aliyun, or with --vendor both" in error, path


async def test_a_slash_at_the_end_changes_no_answer(rig: ExtenderRig) -> None:
    await rig.add_nodes(eight_cards())
    for path in (f"{PREFIX}/inspect", f"{PREFIX}/inspect/node-1", "/version"):
        plain, slashed = [await rig.get(f"{path}{end}") for end in ("", "/")]
        assert plain[0] == 200, path
        assert slashed == plain, path


async def test_both_vendors_are_served_side_by_side() -> None:
    async with ExtenderRig(extender_settings(vendors=(ENFLAME, ALIYUN))) as rig:
        await rig.add_nodes(node_document("gcu", 16), node_document("gpu", 14, vendor=ALIYUN))
        await rig.schedule("a", 4, ["gcu", "gpu"])
        rig.prefix = ALIYUN.url_prefix
        pod = await rig.schedule("binpack-1", 5, ["gcu", "gpu"], vendor=ALIYUN)

        assert pod["spec"]["nodeName"] == "gpu"
        assert pod["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] == "0"
        (gpu,) = (await rig.get_json("/gpushare-scheduler/inspect"))["nodes"]
        assert (gpu["name"], gpu["usedGPU"]) == ("gpu", 5)
        assert gpu["devs"][0]["pods"] == [{"name": "binpack-1", "namespace": "default", "usedGPU": 5}]
        (gcu,) = (await rig.get_json("/gcushare-scheduler/inspect"))["nodes"]
        assert (gcu["name"], gcu["usedGCU"]) == ("gcu", 4)


async def test_it_answers_no_one_before_it_has_read_the_cluster() -> None:
    async with ExtenderRig(starts=False) as rig:
        await rig.api.stop()
        replica = await rig.add_replica()
        rig.replica = replica

        for verb in ("filter", "prioritize", "bind", "preempt"):
            status, answer = await rig.post(verb, b"{}")
            assert (status, "not read yet" in answer["error"]) == (503, True)
        turned_away = {"reason": "not_ready", "result": "turned_away", "vendor": "enflame"}
        assert (await figures(rig)).sum(RESULTS, verb="filter", **turned_away) == 1
        assert (await rig.get(f"{PREFIX}/inspect"))[0] == 503
        assert (await rig.get("/readyz"))[0] == 503
        assert (await rig.get("/healthz"))[0] == 200

        await rig.api.start()
        await rig.until_serving(replica)
        assert (await rig.get("/readyz"))[0] == 200


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

        page = await figures(rig)
        for reason, result in (("declined", "refused"), ("forbidden", "error"), ("malformed", "refused")):
            vendor = "enflame" if reason == "malformed" else "aliyun"
            assert page.sum(RESULTS, verb="bind", reason=reason, result=result, vendor=vendor) == 1, reason
        assert page.sum(RESULTS, verb="bind") == 3


async def test_what_became_of_events_and_of_large_requests_is_reported(rig: ExtenderRig) -> None:
    await rig.add_nodes(eight_cards())
    (pod,) = await rig.add_pods(pod_document("a", 20))
    await rig.filter(pod, ["node-1"])
    await until(lambda: rig.replica.extender.recorder.counters["posted"] == 1)
    await rig.post("filter", json.dumps("x" * 10_000_000).encode())

    page = await figures(rig)
    assert page.sum("gcushare_events_total", outcome="posted") == 1
    assert page.sum("gcushare_refusal_reports_total", outcome="reported", vendor="enflame") == 1
    assert page.sum("gcushare_turned_away_total", cause="size") == 1


async def test_one_nodes_inventory_ends_and_hides_nothing_of_the_others() -> None:
    text = '{"version":1,"unit":"1","cards":[],"x":' + "[" * 1500 + "]" * 1500 + "}"
    async with ExtenderRig() as rig:
        bad = node_document("bad", 16, annotations={ENFLAME.inventory_annotation: text})
        await rig.add_nodes(node_document("good", 16), bad)
        (waiting,) = await rig.add_pods(pod_document("a", 12))

        assert (await rig.filter(waiting, ["good", "bad"]))["NodeNames"] == ["good"]
        status, metrics = await rig.get("/metrics")
        assert (status, 'gcushare_nodes_unreadable{vendor="enflame"} 1.0' in metrics) == (200, True)
        document = await rig.get_json(f"{ENFLAME.url_prefix}/inspect")
        assert "good" in [each["name"] for each in document["nodes"]]
        explained = await rig.get_json(f"{ENFLAME.url_prefix}/explain/default/a")
        assert "the inventory annotation cannot be read" in explained["unreadableNodes"]["bad"]

        # The watch too, not only the first list.
        await rig.add_nodes(node_document("late", 16))
        (another,) = await rig.add_pods(pod_document("b", 16))
        assert (await rig.filter(another, ["late", "bad"]))["NodeNames"] == ["late"]
