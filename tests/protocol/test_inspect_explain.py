"""``explain``: a pod's card and its neighbours, or why it has none; from the extender or from the same core here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from gcushare.cli.inspect.command_line import NAMES
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARDS, CORRECTED, PodRecord
from gcushare.wire.contracts import STARTUP_TAINT
from gcushare_playground.apiserver.faults import FailBefore, Fault
from tests.api_objects import an_object, delete
from tests.builders import card
from tests.extender_objects import pod_document
from tests.protocol.inspect_rig import SERVICE, Cluster, a_node, bound_pod, cluster, extender_of, in_namespace
from tests.protocol.test_doctor_claims import device_class


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        cards = [card(0, model="T20"), card(1, sick=True)]
        found.put(a_node("node-1", offered=cards, address="10.0.0.1"), a_node("node-2", 16))
        found.put(
            bound_pod("a", "node-1", 0, 4, annotations={CORRECTED: "1->0"}),
            bound_pod("b", "node-1", 0, 8),
            bound_pod("c", "node-2", 0, 6),
            pod_document("wait", 14),
            pod_document("huge", 64),
        )
        yield found


async def test_a_bound_pod_is_reported_with_its_card_its_record_and_its_neighbours(seen: Cluster) -> None:
    ran = await seen.call("explain", "a")
    assert ran.code == 0
    facts = [tuple(line.split(maxsplit=1)) for line in ran.lines[1:]]
    assert ran.lines[0].startswith("pod default/a (")
    assert ran.lines[0].endswith("): bound")
    assert facts == [
        ("node", "node-1 (10.0.0.1), Ready"),
        ("state", "Running"),
        ("card", "GCU0, T20, uuid-0: 12/16 GB allocated"),
        ("holds", "4 GB"),
        ("recorded", "1970-01-01T00:00:00Z; not confirmed by the node yet"),
        ("corrected", "1->0: the kubelet gave it another card than was planned"),
        ("beside", "default/b (8)"),
    ]


async def test_a_pod_that_waits_is_explained_by_the_extender_and_here_with_the_same_numbers(seen: Cluster) -> None:
    async with extender_of(seen, waiting=2) as replica:
        asked = await seen.show("explain", "wait", "--extender-url", replica.url)
        reported = (await seen.show("explain", "wait", "--extender-url", replica.url, "-o", "json")).document
    here = await seen.show("explain", "wait", "--source=api")
    own = (await seen.show("explain", "wait", "--source=api", "-o", "json")).document
    assert (asked.code, here.code) == (0, 0)
    assert "source: the scheduler extender at" in asked.err
    assert reported["source"] == "extender"
    assert own["source"] == "api"
    for document in (reported, own):
        document["explanation"].pop("request")  # the extender knows its own default policies
    assert reported["explanation"] == own["explanation"]
    assert own["explanation"]["largestThatFitsNow"] == 10
    assert own["explanation"]["remedy"] == {"node": "node-2", "pods": ["default/c"], "preemption": False}
    assert "it would fit on node-2 if these pods ended: default/c" in here.out


async def test_an_extender_that_is_away_is_passed_over_unless_it_was_asked_for(seen: Cluster) -> None:
    seen.front.backends[SERVICE] = "this is no explanation"
    ran = await seen.show("explain", "huge")
    assert ran.code == 0
    assert "it can never fit: the largest usable card has 16 GB" in ran.out
    assert "was not used" in ran.err
    refused = await seen.show("explain", "huge", "--source", "extender")
    assert refused.code == 1
    assert "the extender's explanation cannot be read" in refused.err


async def test_a_pod_that_asks_for_no_card_is_told_so(seen: Cluster) -> None:
    seen.put(pod_document("odd", None))
    assert "asks for no enflame.com/gcu-memory" in (await seen.call("explain", "odd")).err


async def test_namespaces_come_from_the_name_the_flag_or_the_context(seen: Cluster) -> None:
    seen.put(an_object("Namespace", "team"))
    seen.put(in_namespace(bound_pod("t", "node-2", 0, 1), "team"))
    for argv in (("team/t",), ("t", "-n", "team"), ("-n", "team", "pod/t")):
        assert "pod team/t (" in (await seen.call("explain", *argv)).out
    missing = await seen.call("explain", "t")
    assert missing.code == 1
    assert "hint: -n names the pod's namespace" in missing.err
    assert (await seen.call("explain", "a/b/c")).code == 2
    assert (await seen.call("explain")).code == 2


def asking_too(name: str, units: int, more: dict[str, str], *, node: str = "") -> dict[str, Any]:
    """A pod that asks for memory of a card and for something else."""
    record = PodRecord(card_indexes=(0,), card_units=16, pod_units=units) if node else None
    made = pod_document(name, units, node=node, record=record, phase="Running" if node else "Pending")
    for part in made["spec"]["containers"][0]["resources"].values():
        part.update(more)
    return made


async def test_every_other_resource_that_keeps_a_pod_waiting_is_named_with_its_numbers(seen: Cluster) -> None:
    one = {ENFLAME.count_resource: "1"}
    has = {ENFLAME.memory_resource: "16", ENFLAME.count_resource: "1", "cpu": "4", "memory": "8Gi", "pods": "110"}
    found = a_node("node-3", 16)
    found["status"]["allocatable"] = has
    seen.put(found, asking_too("first", 4, {**one, "memory": "5Gi"}, node="node-3"))
    seen.put(asking_too("second", 12, {**one, "memory": "4Gi"}))
    ran = await seen.call("explain", "second", "--source=api")
    lines = [line for line in ran.lines if line.startswith("node-3 has room on its cards")]
    assert lines == [
        "node-3 has room on its cards, but too little of something else: "
        f"{ENFLAME.count_resource}: 1 asked for, 0 of 1 free; memory: 4Gi asked for, 3Gi of 8Gi free"
    ]
    report = (await seen.call("explain", "second", "--source=api", "-o", "json")).document
    assert report["lacking"] == [
        {"node": "node-3", "resources": [ENFLAME.count_resource, "memory"], "unread": "", "closed": ""}
    ]


async def test_a_kubelet_that_offers_less_than_its_cards_have_is_not_said_to_lack_something_else(seen: Cluster) -> None:
    found = a_node("node-3", 16)
    found["status"]["allocatable"] = {ENFLAME.memory_resource: "0", "pods": "110"}
    seen.put(found, pod_document("waits", 12))
    ran = await seen.call("explain", "waits", "--source=api")
    assert "something else" not in ran.out
    assert f"offers less of them, so kube-scheduler places no pod there ({ENFLAME.memory_resource}: 12 asked" in ran.out


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda options: bound_pod("typo", "node-2", 0, 1, annotations=options), id="bound"),
        pytest.param(lambda options: pod_document("typo", 14, annotations=options), id="waiting"),
        pytest.param(lambda options: pod_document("typo", 0, annotations=options | {CARDS: "no"}), id="refused"),
    ],
)
async def test_a_key_that_no_program_reads_is_named(
    seen: Cluster, made: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    seen.put(made({"gcushare.io/avoid_cards": "0"}))
    said = "annotation gcushare.io/avoid_cards: no program reads it; did you mean the annotation gcushare.io/avoid-card"
    assert said in (await seen.call("explain", "typo", "--source=api")).out
    report = (await seen.call("explain", "typo", "--source=api", "-o", "json")).document
    assert report["unreadKeys"] == [f"{said}s?"]


async def test_room_on_a_node_that_takes_no_pods_is_named_as_such(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        node = a_node("away", 16)
        node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
        found.put(node)
        found.put(pod_document("waits", 8), bound_pod("lost", "gone", 0, 4))
        ran = await found.call("explain", "waits", "--source=api")
    assert (ran.code, "away has room on its cards, but takes no pods: it is not ready" in ran.out) == (0, True)
    assert "gone" not in ran.out


async def test_who_may_not_read_the_nodes_is_informed_that_the_rest_is_not_known(seen: Cluster) -> None:
    seen.put(a_node("node-3", 16), pod_document("fits", 16))
    async with extender_of(seen, waiting=3) as replica:
        seen.api.faults.on(Fault(FailBefore(403, "Forbidden", "nodes is forbidden"), path=r"^/api/v1/nodes/"))
        ran = await seen.call("explain", "fits", "--extender-url", replica.url)
    assert ran.code == 0
    assert "what else node-3 has free is not known: " in ran.out


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"aliyun.com/gpu_mem": "4"}, "aliyun.com/gpu_mem: no node has it; did you mean aliyun.com/gpu-mem?"),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"},
            "it asks for cards in the words of HAMi (nvidia.com/gpumem)",
        ),
    ],
)
async def test_a_pod_that_asks_in_other_words_is_told_the_right_ones(
    tmp_path: Path, limits: dict[str, str], said: str
) -> None:
    async with cluster(tmp_path, names=NAMES["gpushare"]) as found:
        pod = pod_document("odd", None)
        pod["spec"]["schedulerName"] = "hami-scheduler"
        pod["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
        found.put(a_node("node-1", 16, vendor=ALIYUN), pod)
        ran = await found.call("explain", "odd", "--source=api")
    text = " ".join((ran.out + ran.err).split())
    assert said in text
    assert "add a node" not in text


async def test_pods_that_are_placed_no_more_are_told_why_and_do_not_wait(seen: Cluster) -> None:
    refused, leaving = pod_document("refused", 4, node="node-1", phase="Failed"), pod_document("leaving", 4)
    refused["status"] |= {"reason": "UnexpectedAdmissionError", "message": "no room on card 0"}
    leaving["metadata"]["finalizers"] = ["example.com/keeps"]
    seen.put(refused, leaving)
    delete(seen.api, "Pod", "leaving")
    said = (await seen.call("explain", "refused")).out + (await seen.call("explain", "leaving", "--source=api")).out
    assert "the pod has ended (Failed: UnexpectedAdmissionError: no room on card 0)" in said
    assert "the pod is being deleted, and is placed no more" in said
    assert "leaving" not in (await seen.call("-o", "json", "--source=api")).out
    seen.put(pod_document("static", 4, node="node-1", annotations={"kubernetes.io/config.mirror": "x"}))
    assert "is a static pod: the kubelet of node-1 starts it" in (await seen.call("explain", "static")).err


async def test_a_gated_pod_is_told_which_gate_it_waits_for(seen: Cluster) -> None:
    pod = pod_document("gated", 4)
    pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    seen.put(pod)
    async with extender_of(seen, waiting=3) as replica:
        shown = [await seen.call("explain", "gated", f"--extender-url={replica.url}")]
    shown.append(await seen.call("explain", "gated", "--source=api"))
    for ran in shown:
        assert ran.lines[0].endswith(": gated")
        assert (
            "kube-scheduler leaves it alone until its scheduling gate 'kueue.x-k8s.io/admission' is removed" in ran.out
        )
        assert "is it running" not in ran.out


async def test_a_class_that_takes_the_place_of_ours_is_named_to_pods_that_wait_for_whole_cards(seen: Cluster) -> None:
    ours, cards = ENFLAME.claims.whole_class, ENFLAME.whole_card_resource
    for name, resource in ((ours, cards), ("gpu.other.example.com", cards), ("nic.example.com", "example.com/nic")):
        seen.put(device_class(name, resource))
    seen.put(pod_document("waits", 64, whole=4))
    ran = await seen.call("explain", "waits", "--source=api")
    document = (await seen.call("explain", "waits", "--source=api", "-o", "json")).document
    assert document["rivalClasses"] == ["gpu.other.example.com"]
    says = f"DeviceClass gpu.other.example.com: it stands for {cards}, as {ours} does"
    assert says in " ".join(ran.out.split())


async def test_nodes_that_cluster_autoscaler_misjudges_are_named_to_a_pod_that_fits_nowhere(seen: Cluster) -> None:
    label = {"cloud.google.com/gke-accelerator": "x"}
    for number in range(5):
        seen.put(a_node(f"labelled-{number}", 16, labels={ENFLAME.label_key: "true", **label}))
    joined = a_node("joined", 16, labels={ENFLAME.label_key: "true"})
    del joined["metadata"]["annotations"]
    seen.put(joined, pod_document("small", 2))
    said = " ".join((await seen.call("explain", "huge", "--source=api")).out.split())
    assert "node labelled-0: it has the label cloud.google.com/gke-accelerator and offers no nvidia.com/gpu" in said
    assert "what would help: if Cluster Autoscaler manages it: leave cloud.google.com/gke-accelerator out" in said
    assert "the same of 3 other nodes: gcushare doctor names them" in said
    named = (await seen.call("explain", "huge", "--source=api", "-o", "json")).document["autoscaler"]
    assert [each["id"] for each in named] == [*["autoscaler-gpu-label"] * 5, "startup-taint-missing"]
    assert f"give its node group the taint {STARTUP_TAINT}:NoSchedule" in named[-1]["remedy"]
    fits = (await seen.call("explain", "small", "--source=api", "-o", "json")).document
    assert fits["autoscaler"] == [], "a pod that fits needs no node"
