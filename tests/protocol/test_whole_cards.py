"""Whole and shared cards over HTTP: the extender, and what ``kubectl inspect gcushare`` shows of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.core.cards import BOTH_MODES, SERVES_WHOLE
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CARD_MODE
from tests.extender_objects import as_whole, node_document, pod_document
from tests.protocol.extender_rig import ExtenderRig, until
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster, extender_of

INDEX = ENFLAME.record.card_index


@pytest.fixture
async def rig() -> AsyncIterator[ExtenderRig]:
    async with ExtenderRig() as running:
        yield running


async def test_pods_of_both_kinds_share_a_node_and_never_a_card(rig: ExtenderRig) -> None:
    await rig.add_nodes(node_document("node-1", 16, 16, 16, modes=BOTH_MODES))
    names = ["node-1"]
    shared = [(await rig.schedule(f"small-{number}", 5, names))["metadata"]["annotations"] for number in range(3)]
    whole = (await rig.schedule("train", 0, names, whole=2))["metadata"]["annotations"]

    assert {each[INDEX] for each in shared} == {"0"}
    assert (whole[INDEX], whole[CARD_MODE]) == ("1,2", "whole")
    (late,) = await rig.add_pods(pod_document("late", 4))
    assert (await rig.filter(late, names))["FailedNodes"] == {"node-1": ENFLAME.refused_reason}
    status, answer = await rig.bind(late, "node-1")
    assert (status, "has not passed filter here lately" in answer["Error"]) == (200, True)


async def test_who_is_refused_a_whole_card_gets_an_event_with_the_numbers(rig: ExtenderRig) -> None:
    await rig.add_nodes(node_document("node-1", 16, 16, modes=(SERVES_WHOLE,)), node_document("node-2", 16))
    (pod,) = await rig.add_pods(pod_document("train", whole=3))
    answer = await rig.filter(pod, ["node-1", "node-2"])
    assert answer["FailedNodes"] == dict.fromkeys(["node-1", "node-2"], "insufficient whole GCU cards")
    await until(lambda: bool(rig.events()))

    (event,) = rig.events()
    assert event["reason"] == "InsufficientWholeCards"
    assert event["message"].startswith("needs 3 whole cards; whole cards free: card 0 of node-1, card 1 of node-1;")


async def test_the_metrics_tell_free_shared_and_whole_cards_apart(rig: ExtenderRig) -> None:
    await rig.add_nodes(node_document("node-1", 16, 16, 16, 16, modes=BOTH_MODES))
    await rig.schedule("small", 4, ["node-1"])
    await rig.schedule("train", 0, ["node-1"], whole=2)
    _, text = await rig.get("/metrics")

    for mode, count in (("free", 1), ("shared", 1), ("whole", 2)):
        assert f'gcushare_cards_by_mode{{mode="{mode}",unit="1",vendor="enflame"}} {count}.0' in text


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16, 16, 16, address="10.0.0.1", modes=BOTH_MODES))
        found.put(bound_pod("small", "node-1", 0, 4))
        found.put(pod_document("train", node="node-1", whole=1, record=as_whole(1), phase="Running"))
        found.put(pod_document("wait", whole=2))
        yield found


async def test_the_tables_show_who_holds_a_card_whole_from_either_source(seen: Cluster) -> None:
    async with extender_of(seen, waiting=1) as replica:
        asked = await seen.show("--extender-url", replica.url)
    for ran in (asked, await seen.show("--source=api")):
        assert ran.code == 0, ran.err
        assert ran.lines[1].split() == ["node-1", "10.0.0.1", "4/16", "16/16=", "0/16", "20/48"]
        assert "whole cards: 1 free, 1 held whole, 1 shared" in ran.lines
        assert "pending: 1 pod waits for 2 whole cards: default/wait (2 whole cards)" in ran.lines


@pytest.mark.slow
async def test_explain_speaks_of_whole_cards_and_says_the_same_from_either_source(seen: Cluster) -> None:
    async with extender_of(seen, waiting=1) as replica:
        asked = await seen.call("explain", "wait", "--extender-url", replica.url)
    here = await seen.call("explain", "wait", "--source=api")

    for ran in (asked, here):
        assert "needs 2 whole cards; the largest request that fits now is 1 whole card" in ran.out
        assert "too few unused cards: whole cards free: card 2 of node-1; total free 1 of 3" in ran.out
    assert "whole-card policy close" in asked.out
    assert "16 GB (whole)" in (await seen.call("explain", "train")).out


@pytest.mark.slow
async def test_pods_of_another_plugins_whole_cards_are_not_shown_as_waiting(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16))
        found.put(pod_document("theirs", whole=1), pod_document("running", whole=1, node="node-1", phase="Running"))
        assert "pending" not in (await found.call("--source=api")).out
        details = (await found.call("-d", "--source=api")).out
        assert ("running" in details, "PENDING" in details.upper()) == (False, False)
        assert "no node serves whole cards" in (await found.call("explain", "theirs", "--source=api")).out
        refused = await found.call("explain", "running", "--source=api")
        assert (refused.code, "another one gave them, and nothing of it is decided here" in refused.err) == (1, True)
        served = a_node("node-2", 16, modes=BOTH_MODES)
        found.put(served, pod_document("new", whole=1, node="node-2"))
        assert "1 whole card" in (await found.show("-d", "--source=api")).out
        refused = await found.call("explain", "new", "--source=api")
        assert (refused.code, "the device plugin writes it once the kubelet admits the pod" in refused.err) == (1, True)
