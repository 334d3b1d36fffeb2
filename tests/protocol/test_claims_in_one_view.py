"""Some nodes serve claims and others resources, and every view counts both in the same way."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gcushare.cluster.metrics_text import parse_figures
from gcushare.core.cards import SERVES_CLAIMS
from gcushare.scheduler_extender.dashboard.dashboard_settings import Access, DashboardSettings
from gcushare.scheduler_extender.mutual_tls.mutual_tls_settings import Verbs, VerbsSettings
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CLAIMED_UNITS
from tests.api_objects import an_object, find, merge_into
from tests.extender_objects import Document, filter_body, node_document, on_card, pod_document
from tests.protocol.claims_rig import share
from tests.protocol.commands import Ran
from tests.protocol.extender_rig import Replica, extender_settings, running_replica, until
from tests.protocol.inspect_rig import Cluster, cluster, extender_of

SOURCES = ("api", "extender")
NAMES = ENFLAME.claims


def claiming_pod(name: str, units: int, node: str = "") -> Document:
    """A pod as the admission policy leaves it."""
    pod = pod_document(name, None, node=node, phase="Running" if node else "Pending")
    template = f"{NAMES.template_prefix}-{units}"
    entry = f"gcushare-{NAMES.template_prefix}"
    pod["spec"]["resourceClaims"] = [{"name": entry, "resourceClaimTemplateName": template}]
    return pod


def uid_of(found: Cluster, pod: str) -> str:
    """The uid that the API server gave a pod."""
    return str(find(found.api, "Pod", pod)["metadata"]["uid"])


def put_claim(found: Cluster, pod: str, node: str, card: int, gib: int, *sharers: str, whole: bool = False) -> None:
    """A claim as kube-scheduler leaves it for a pod, or for several."""
    name = f"claim-of-{pod}"
    result = {"request": "card", "driver": NAMES.driver, "pool": node, **share(f"card-{card}", gib)}
    reserved = [{"resource": "pods", "name": each, "uid": uid_of(found, each)} for each in (pod, *sharers)]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    found.api.registry.put(claim_of(name, NAMES.whole_class if whole else NAMES.memory_class))
    merge_into(found.api, "ResourceClaim", name, {"status": status}, status_only=True)


def claim_of(name: str, klass: str, **more: Any) -> Document:
    request = {"name": "card", "exactly": {"deviceClassName": klass, **more}}
    return an_object("ResourceClaim", name, spec={"devices": {"requests": [request]}})


def own_claim(name: str, gib: int) -> Document:
    """A claim for memory as a pod's author writes it."""
    return claim_of(name, NAMES.memory_class, capacity={"requests": {"memory": f"{gib}Gi"}})


def naming_pod(name: str, claim: str, node: str = "") -> Document:
    """A pod whose request stands in a claim alone."""
    pod = pod_document(name, None, node=node, phase="Running" if node else "Pending")
    pod["spec"]["resourceClaims"] = [{"name": "cards", "resourceClaimName": claim}]
    return pod


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Cluster]:
    """One node of each kind, with two cards of 16, and a pod of 4 on each; one more pod waits for a claim of 20."""
    async with cluster(tmp_path) as found:
        claims_node = node_document("serves-claims", 16, 16, modes=(SERVES_CLAIMS,))
        found.put(node_document("serves-memory", 16, 16), claims_node)
        found.put(pod_document("old", 4, node="serves-memory", record=on_card(1, 4), phase="Running"))
        found.put(claiming_pod("new", 4, "serves-claims"), pod_document("big", None, node="serves-claims", whole=1))
        found.put(claiming_pod("huge", 20))
        put_claim(found, "new", "serves-claims", 0, 4)
        put_claim(found, "big", "serves-claims", 1, 16, whole=True)
        yield found


async def until_known(found: Cluster, replica: Replica, *pods: str) -> None:
    """Wait until the extender knows what these pods hold, in addition to those that hold claims from the beginning."""
    await until(lambda: all(uid_of(found, pod) in replica.extender.states[0].bound for pod in ("new", "big", *pods)))


def pods_of(node: Document, cards: str = "cards") -> list[Document]:
    """The pods of all cards of a node, as a document has it."""
    return [pod for card in node[cards] for pod in card["pods"]]


def held(document: Document) -> dict[str, list[tuple[str, int, bool]]]:
    """Per node, its pods with what they hold, as the manual's JSON has it."""
    return {
        node["name"]: [(pod["name"], pod["usedGCU"], pod.get("whole", False)) for pod in pods_of(node, "devices")]
        for node in document["nodes"]
    }


def state_of(explained: Ran) -> str:
    """What the first line of an explanation says."""
    return explained.lines[0].rpartition(": ")[2]


async def filtered(replica: Replica, pod: Document, node: str) -> tuple[int, str]:
    """The extender's answer to filter: its status and its text."""
    url = f"{replica.url}{ENFLAME.url_prefix}/filter"
    async with aiohttp.ClientSession() as http, http.post(url, data=filter_body(pod, [node])) as answer:
        return answer.status, await answer.text()


EXPECTED = {"serves-memory": [("old", 4, False)], "serves-claims": [("new", 4, False), ("big", 16, True)]}


async def test_the_extender_and_the_commands_show_and_explain_both_kinds_of_node(both: Cluster) -> None:
    why = "by a claim, needs 20 GB in one card; it can never fit"
    async with extender_of(both) as replica:
        await until_known(both, replica)
        assert held(await replica.ask("inspect")) == EXPECTED
        waits, has = await replica.ask("explain/default/huge"), await replica.ask("explain/default/new")
        assert waits["state"] == "waits"
        assert waits["summary"].startswith(why)
        assert (has["node"], has["cards"], has["units"]) == ("serves-claims", [0], 4)
        figures = parse_figures(await replica.get("/metrics"))
        shown = [figures.sum(f"gcushare_{name}", vendor="enflame") for name in ("units_free", "largest_request_units")]
        assert shown == [40, 16]
        rows = []
        for source in SOURCES:
            document = (await both.call("-o", "json", f"--source={source}")).document
            free = {node["name"]: [card["free"] for card in node["cards"]] for node in document["nodes"]}
            assert free == {"serves-claims": [12, 0], "serves-memory": [16, 12]}, source
            wide = (await both.call("-o", "wide", f"--source={source}")).lines
            at = next(line for line in wide if line.startswith("NAME")).index("FREE")
            assert next(line for line in wide if line.startswith("serves-claims"))[at:].split()[:2] == ["12", "12"]
            rows.append([line for line in (await both.call(f"--source={source}")).lines if line.startswith("serves-")])
            explained = await both.call("explain", "huge", f"--source={source}")
            assert f"{why}: the largest usable card has 16 GB" in explained.out
            assert "serves-memory" not in explained.out + explained.err, "its claim cannot be allocated there"
            for pod, size in (("new", "4 GB"), ("big", "16 GB")):
                explained = await both.call("explain", pod, f"--source={source}")
                assert "node        serves-claims" in explained.out, source
                assert size in explained.out, source
        assert rows[0] == rows[1]


@pytest.mark.parametrize(("asked", "advised"), [("main=20", 'gcushare.io/cards: "2": 10'), ("main=15,b=5", "")])
async def test_several_cards_are_advised_where_the_policy_would_take_them(
    both: Cluster, asked: str, advised: str
) -> None:
    pod = claiming_pod("divided", 20)
    pod["metadata"]["annotations"] = {CLAIMED_UNITS: asked}
    both.put(pod)
    async with extender_of(both) as replica:
        await until(lambda: bool(replica.extender.states[0].names.find("default", "divided")))
        served = (await replica.ask("explain/default/divided"))["waysOut"]
    shown = await both.call("explain", "divided", "--source=api")
    for text in (str(served), shown.out + shown.err):
        assert ("gcushare.io/cards" in text) == bool(advised)
        assert advised in text


async def test_a_claim_is_counted_until_it_is_deallocated(both: Cluster) -> None:
    async with extender_of(both) as replica:
        ledger = replica.extender.states[0].ledger
        await until(lambda: ledger.assignment(uid_of(both, "new")) is not None)
        both.delete("new")
        await until(lambda: both.api.store.get("pods", "new", "default") is None)
        assert ledger.nodes["serves-claims"].used == 20
        merge_into(both.api, "ResourceClaim", "claim-of-new", {"status": None}, status_only=True)
        await until(lambda: ledger.nodes["serves-claims"].used == 16)


async def test_resource_pods_are_offered_no_room_there_and_are_told_why(both: Cluster) -> None:
    both.put(pod_document("plain", 14))
    async with extender_of(both, waiting=1) as replica:
        await until(lambda: uid_of(both, "new") in replica.extender.states[0].bound)
        found = await replica.ask("explain/default/plain")
    reasons = {each["examples"][0]: each["reason"] for each in found["classes"]}
    assert reasons["serves-claims"] == "its cards are given as claims (label gcushare.io/serve)"
    assert reasons["serves-memory"] == "room"


async def test_pods_with_a_claim_of_their_author_are_seen_like_those_with_one_of_the_policy(both: Cluster) -> None:
    both.api.registry.put(own_claim("small", 2))
    large = own_claim("large", 24)
    alternatives = large["spec"]["devices"]["requests"][0]
    alternatives["firstAvailable"] = [{"name": "any", **alternatives.pop("exactly")}]
    both.api.registry.put(large)
    both.api.registry.put(claim_of("entire", NAMES.whole_class))
    both.api.registry.put(claim_of("of-a-nic", "nic.example.com"))
    both.put(naming_pod("wants-2", "small"), naming_pod("wants-24", "large"), naming_pod("wants-a-card", "entire"))
    both.api.registry.put(own_claim("templated-cards-x7k2p", 6))
    templated = naming_pod("wants-6", "")
    templated["spec"]["resourceClaims"] = [{"name": "cards", "resourceClaimTemplateName": "of-their-own"}]
    made = [{"name": "cards", "resourceClaimName": "templated-cards-x7k2p"}]
    templated["status"] = {**templated.get("status", {}), "resourceClaimStatuses": made}
    both.put(templated)
    both.put(naming_pod("of-no-concern", "of-a-nic"), naming_pod("own", "claim-of-own", "serves-claims"))
    put_claim(both, "own", "serves-claims", 0, 3)
    async with extender_of(both) as replica:
        await until_known(both, replica, "own")
        for source in SOURCES:
            document = (await both.call("-o", "json", f"--source={source}")).document
            waiting = {pod["name"]: (pod["units"], pod["wholeCards"]) for pod in document["pending"]}
            units = {"huge": 20, "wants-6": 6, "wants-2": 2, "wants-24": 24}
            assert waiting == {name: (amount, 0) for name, amount in units.items()} | {"wants-a-card": (0, 1)}
            states = {pod["name"]: pod["state"] for node in document["nodes"] for pod in pods_of(node)}
            assert states == {"old": "Running", "new": "Running", "big": "Pending", "own": "Running"}
            for pod, words in (("wants-2", "fits"), ("wants-24", "waits"), ("wants-a-card", "waits")):
                explained = await both.call("explain", pod, f"--source={source}")
                assert (explained.code, state_of(explained)) == (0, words), explained
                assert "by a claim" in explained.out
            assert "of-a-nic" not in (await both.call("-d", f"--source={source}")).out
            bound = await both.call("explain", "own", f"--source={source}")
            assert (bound.code, state_of(bound)) == (0, "bound")
        assert "asks for no enflame.com/gcu-memory" in (await both.call("explain", "of-no-concern")).err


async def test_a_pod_that_asks_by_a_claim_and_by_a_resource_is_refused_in_the_same_words(both: Cluster) -> None:
    both.api.registry.put(own_claim("small", 2))
    pod = naming_pod("twice", "small")
    pod["spec"]["containers"][0]["resources"] = {"limits": {ENFLAME.memory_resource: "4"}}
    both.put(pod)
    async with extender_of(both) as replica:
        uid = uid_of(both, "twice")
        await until(lambda: uid in replica.extender.states[0].claiming)
        for source in SOURCES:
            explained = await both.call("explain", "twice", f"--source={source}")
            assert state_of(explained) == "refused", explained
            assert "asks for enflame.com/gcu-memory and for cards by a claim" in explained.out
        _, answer = await filtered(replica, find(both.api, "Pod", "twice"), "serves-claims")
        assert "take one of them out of the pod" in answer


def put_shared(found: Cluster, node: str = "serves-claims") -> None:
    """Two running pods of one claim of 5."""
    found.put(naming_pod("first", "claim-of-first", node), naming_pod("second", "claim-of-first", node))
    put_claim(found, "first", node, 0, 5, "second")
    merge_into(found.api, "ResourceClaim", "claim-of-first", {"spec": own_claim("claim-of-first", 5)["spec"]})


async def test_a_claim_that_two_pods_share_counts_once_in_every_view(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found, extender_of(found) as replica:
        found.put(node_document("serves-claims", 16, 16, modes=(SERVES_CLAIMS,)))
        put_shared(found)
        await until(lambda: uid_of(found, "first") in replica.extender.states[0].bound)
        for source in SOURCES:
            piped, wide = await found.call(f"--source={source}"), await found.call("-o", "wide", f"--source={source}")
            for table in (piped, wide):
                assert "PENDING" not in table.out
                row = next(line.split() for line in table.lines if line.startswith("serves-claims"))
                assert row[2:5] == ["5/16", "0/16", "5/32"], table.out
            document = (await found.call("-o", "json", f"--source={source}")).document
            (node,) = document["nodes"]
            assert (document["pending"], node["pending"]) == ([], 0)
            assert node["allocated"] == document["cluster"]["allocated"] == 5
            (holder,) = node["cards"][0]["pods"]
            assert (holder["name"], holder["sharedWith"]) == ("first", ["default/second"]), source
            details = await found.show("-d", f"--source={source}")
            words = [line.split() for line in details.lines if line.startswith(("first", "second"))]
            rows = {name: amounts for name, _, _, *amounts in words}
            assert rows == {"first": ["5", "0"], "second&": ["(5)", "0"]}, source
            explained = {name: await found.call("explain", name, f"--source={source}") for name in ("first", "second")}
            for name, other in (("first", "second"), ("second", "first")):
                assert f"holds       5 GB, which it shares with default/{other}" in explained[name].out, explained[name]
                assert "claim       allocated by kube-scheduler and prepared by the node" in explained[name].out
                assert "beside      no one" in explained[name].out
        found.put(naming_pod("third", "claim-of-first"))
        third = await found.call("explain", "third")
        assert "error: its claim claim-of-first is allocated: card-0 of serves-claims" in third.err
        served = await replica.ask("explain/default/second")
        assert (served["state"], served["cards"], served["units"]) == ("bound", [0], 5)
        assert served["summary"] == "bound to serves-claims: card 0, 5 units, shared with default/first"


async def test_a_pod_of_a_claim_is_explained_after_its_node_is_gone(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(node_document("stays", 16))
        put_shared(found, "gone")
        for name in ("first", "second"):
            ran = await found.call("explain", name, "--source=api")
            assert "node        gone (it has no cards any more, or is gone)" in ran.out, ran
            assert "warning: node gone does not exist any more" in ran.err


@pytest.mark.parametrize(
    ("has_slice", "said"),
    [
        (True, "allocated by kube-scheduler; the pod does not run yet"),
        (False, f"not prepared: {NAMES.driver} publishes no ResourceSlice of serves-claims, so its driver is down"),
    ],
)
async def test_a_claim_that_no_driver_prepares_is_not_said_to_be_confirmed(
    both: Cluster, has_slice: bool, said: str
) -> None:
    if has_slice:
        pool = {"name": "serves-claims", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": NAMES.driver, "nodeName": "serves-claims", "pool": pool}
        both.api.registry.put(an_object("ResourceSlice", "s", spec=spec))
    explained = await both.call("explain", "big", "--source=api")
    assert said in explained.out, explained
    assert "confirmed" not in explained.out


@pytest.fixture
async def claims_only(tmp_path: Path) -> AsyncIterator[Cluster]:
    """One node that serves claims, with memory of its one card in use; two pods wait."""
    async with cluster(tmp_path) as found:
        found.put(node_document("serves-claims", 16, modes=(SERVES_CLAIMS,)))
        found.put(claiming_pod("new", 4, "serves-claims"), claiming_pod("huge", 14), pod_document("big", None, whole=1))
        put_claim(found, "new", "serves-claims", 0, 4)
        yield found


async def test_without_its_verbs_the_extender_places_nothing_and_shows_and_explains_who_waits(
    claims_only: Cluster,
) -> None:
    verbs, page = VerbsSettings(verbs=Verbs.OFF), DashboardSettings(dashboard=Access.OPEN, page_port=0)
    settings = replace(extender_settings(), verbs=verbs, dashboard=page)
    async with running_replica(settings, claims_only.api.url) as replica:
        await until(lambda: len(replica.extender.states[0].claiming) == 2)
        assert (await filtered(replica, pod_document("p"), "serves-claims"))[0] == 404
        assert held(await replica.ask("inspect")) == {"serves-claims": [("new", 4, False)]}
        await replica.get("/readyz")
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
