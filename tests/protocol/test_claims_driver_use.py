"""What pods with claims really use, pods over their claim, and limits of their memory: through the real driver."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from gcushare.cli.cards.cards import ask_addresses
from gcushare.core.cards import SERVES_CLAIMS
from gcushare.core.units import GIB
from gcushare.node.node_settings import MemoryLimit
from gcushare.node.over_use.idle_settings import IdleAction
from gcushare.node.over_use.over_use_settings import Action
from gcushare.vendors import ALIYUN
from gcushare.wire.annotations import WHEN_IDLE
from gcushare.wire.contracts import DEVICE_PLUGIN, PLUGIN_PORT
from gcushare_playground.kubelet.dra import ClaimRef
from tests.api_objects import find
from tests.extender_objects import node_document, pod_document
from tests.fake_proc import FakeProc
from tests.protocol.claims_rig import ClaimsRig, share
from tests.protocol.inspect_rig import cluster, in_namespace
from tests.protocol.mps_rig import MpsRig, mps_rig
from tests.protocol.node_rig import NODE
from tests.protocol.over_use_rig import ProcessUse
from tests.protocol.test_cards_command import cards


class UseRig(ProcessUse, ClaimsRig):
    """One card of 16 GiB."""

    def __init__(self, proc: Path, **settings: Any) -> None:
        self.proc, self._pids = FakeProc(proc), {}
        ClaimsRig.__init__(self, (16,), pod_use=True, proc_root=proc, **settings)

    async def run(self, name: str, gib: int) -> None:
        """Run a pod whose claim has so much of the card."""
        claim = self.allocate(name, share("card-0", gib))
        uid = self.run_pod(name, name, annotations={WHEN_IDLE: "evict"})
        self.reserve(claim, (name, uid))
        assert (await self.kubelet.prepare(claim))[claim.uid].error == ""
        await self.until(lambda: uid in self.app.observed.pods.entries, "the driver knows the pod")

    async def share(self, name: str, other: str) -> None:
        """Run another pod with the claim of a pod."""
        uid = self.run_pod(name, other)
        claim = find(self.api, "ResourceClaim", other)
        self.reserve(ClaimRef(claim["metadata"]["uid"], other), (other, self.uid(other)), (name, uid))
        await self.until(lambda: uid in self.app.observed.pods.entries, "the driver knows the pod")


async def test_an_over_use_of_a_claim_is_reported_as_on_a_node_of_the_plugin(tmp_path: Path) -> None:
    async with UseRig(tmp_path / "proc") as rig:
        await rig.start()
        await rig.run("greedy", 4)
        await rig.run("modest", 12)
        rig.use(greedy=5, modest=2)
        await rig.until_noted("greedy")
        assert rig.events("OverUse") == [
            "5.00 GiB of card 0 in use, 4.00 GiB granted: other pods of this card may lack what they were granted"
        ]
        status = await rig.status()
        pods = {pod["pod"]: pod for pod in status["pods"]}
        assert pods["default/greedy"]["overUse"]["0"]["usedBytes"] == 5 * GIB
        assert pods["default/modest"]["overUse"] == {}
        assert status["cards"][0]["holders"] == ["default/greedy", "default/modest"]
        assert status["cards"][0]["heldUnits"] == 16
        page = await rig.figures()
        figures = ("memory_used_bytes", "memory_granted_bytes", "utilization_percent")
        found = [page.sum(f"gcushare_pod_{figure}", pod_name="greedy", card="0") for figure in figures]
        assert found == [5 * GIB, 4 * GIB, 10.0]

        rig.use(greedy=4, modest=2)
        await rig.until_noted("greedy", noted=False)
        assert len(rig.events("OverUseEnded")) == 1


@pytest.mark.parametrize("named", ["greedy", "modest"])
async def test_a_pod_that_only_names_a_claim_of_the_card_is_no_user_of_it(tmp_path: Path, named: str) -> None:
    async with UseRig(tmp_path / "proc", over_use=Action.EVICT, over_use_pause=1.0) as rig:
        await rig.start()
        await rig.run("greedy", 4)
        await rig.run("modest", 8)
        rig.run_pod("second", named)
        rig.use(greedy=9, modest=2)
        await rig.event("OverUseEvicted")
        assert [each for each in rig.app.observed.pods.entries.values() if each.ref.name == "second"] == []


@pytest.mark.slow
async def test_pods_that_a_claim_is_reserved_for_share_it_and_the_one_that_uses_too_much_is_evicted(
    tmp_path: Path,
) -> None:
    async with UseRig(tmp_path / "proc", over_use=Action.EVICT, over_use_pause=1.0) as rig:
        await rig.start()
        await rig.run("greedy", 4)
        await rig.run("modest", 8)
        await rig.share("second", "greedy")
        page = await rig.figures()
        granted = [page.sum("gcushare_pod_granted_bytes", pod_name=name) for name in ("greedy", "second", "modest")]
        assert granted == [2 * GIB, 2 * GIB, 8 * GIB], "the sum over pods counts their claim once"
        rig.use(greedy=2, second=1, modest=2)
        await rig.polls(4)
        assert rig.note("greedy") is None
        assert rig.note("second") is None
        rig.use(greedy=9, second=1, modest=2)
        await rig.event("OverUseEvicted")
        assert rig.is_here("second")


async def test_cards_and_top_read_the_driver_as_they_read_a_plugin(tmp_path: Path) -> None:
    async with UseRig(tmp_path / "proc") as rig, cluster(tmp_path) as found:
        await rig.start()
        await rig.run("greedy", 4)
        rig.use(greedy=5)
        await rig.polls(3)
        pod = in_namespace(pod_document("x7", None, node=NODE, phase="Running"), "kube-system")
        pod["spec"]["containers"][0]["command"] = [DEVICE_PLUGIN]
        found.put(node_document(NODE, 16, modes=(SERVES_CLAIMS,)), pod)
        found.front.backends[f"pods/http:x7:{PLUGIN_PORT}"] = rig.url

        ran = await cards(NODE, environ=found.environ())
        assert (ran.code, ran.err) == (0, "")
        assert ran.lines[0].startswith("node-1; enflame; driver simulated")
        assert any(" ".join(line.split()).startswith("0 default/greedy 4 5.0 10% over by 1.0") for line in ran.lines)
        top = await found.call("top")
        assert top.code == 0, top.err
        assert top.lines[1].split()[:5] == ["node-1", "0", "0.0", "5.0", "16.0"]
        (row,) = [line for line in top.lines if "default/greedy" in line]
        assert row.split()[2:9] == ["default/greedy", "4.0", "-", "5.0", "processes", "10%", "over"]
        assert "not reported" not in top.err

        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            here = await ask_addresses((silent_url, rig.url), takes_first=True)
        assert [view.origin for view in here.nodes] == [rig.url]


def limited_rig(mps: MpsRig) -> ClaimsRig:
    return ClaimsRig((16,), vendor=ALIYUN, memory_limit=MemoryLimit.MPS, mps_root=mps.folders.root)


def edits(rig: ClaimsRig) -> dict[str, Any]:
    (file,) = (rig.root / "cdi").iterdir()
    found: dict[str, Any] = json.loads(file.read_text())["devices"][0]["containerEdits"]
    return found


async def test_no_claim_is_prepared_without_the_mps_daemon_and_with_it_each_is_limited_to_its_share() -> None:
    async with mps_rig() as mps, limited_rig(mps) as rig:
        await rig.start()
        assert rig.devices()["card-0"]["taints"][0]["key"] == f"{ALIYUN.claims.driver}/sick"
        claim = rig.allocate("one", share("card-0", 4))
        error = (await rig.kubelet.prepare(claim))[claim.uid].error
        assert "memory cannot be limited (card 0: the MPS daemon does not answer: Cannot find" in error
        assert rig.problem("memoryLimit")

        await mps.start()
        await rig.until(lambda: "taints" not in rig.devices()["card-0"], "the card is open")
        assert (await rig.kubelet.prepare(claim))[claim.uid].error == ""
        found = edits(rig)
        assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=GCU-0=4096M" in found["env"]
        pipe = str(mps.folders.pipe)
        assert f"CUDA_MPS_PIPE_DIRECTORY={pipe}" in found["env"]
        assert [(each["hostPath"], each["containerPath"], each["options"][0]) for each in found["mounts"]] == [
            (str(mps.folders.shm), "/dev/shm", "rw"),
            (pipe, pipe, "rw"),
        ]


async def test_cards_that_are_all_left_out_are_named_with_the_reason() -> None:
    async with ClaimsRig() as rig:
        rig.write_cards({card: {"left_out": "MIG mode is on"} for card in (0, 1)})
        await rig.start(until_published=False)
        why = "lists no card that can be shared: cards 0,1: MIG mode is on"
        await rig.until(lambda: why in rig.app.observed.agent.problem, "the driver says why")
        assert why in (await rig.get("/readyz"))[1]
        assert [card["index"] for card in (await rig.status())["leftOut"]] == [0, 1]


@pytest.mark.slow
async def test_an_idle_pod_keeps_a_claim_that_another_one_computes_with_and_gives_it_back_afterwards(
    tmp_path: Path,
) -> None:
    idle = {"idle": IdleAction.EVICT, "idle_after": 1.0, "idle_least_age": 0.0}
    async with UseRig(tmp_path / "proc", over_use_pause=0.5, **idle) as rig:
        await rig.start()
        await rig.run("first", 4)
        await rig.share("second", "first")
        rig.use(second=1)
        await rig.event("Idle")
        await rig.polls(10)
        assert rig.events("IdleEvicted") == []
        outlook = (await rig.status())["idle"]["outlook"]
        assert outlook == {"default/first": "it shares its memory with default/second, which uses the card"}
        rig.use()
        await rig.event("IdleEvicted")
