"""Prepared claims that no pod uses any more: they are named, and released."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import RetryableError
from gcushare.device_plugin.claims.claim_checks import CHECK_S, UNSEEN_S, ClaimChecks
from gcushare.device_plugin.claims.service import ClaimsOfContainers
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare_playground.apiserver.faults import FailBefore, Fault
from gcushare_playground.kubelet.dra import ClaimRef
from tests.api_objects import delete
from tests.protocol.claims_rig import ClaimsRig, share

IN_USE = {("default/orphan", "main"): frozenset({"default/orphan"})}


@dataclass
class Bench:
    """The driver's checks in a time that only ``wait`` moves."""

    rig: ClaimsRig
    client: KubeClient
    now_s: float = 0.0
    shown: ClaimsOfContainers | None = field(default_factory=dict)
    running: frozenset[str] | None = None
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        seen = self.rig.app.observed
        self.checks = ClaimChecks(
            seen.prepared,
            seen.pods,
            self.client,
            claims_of_containers=self._show,
            running=self._run,
            announce=lambda reason, _message: self.events.append(reason),
            clock=lambda: self.now_s,
        )

    async def _show(self) -> ClaimsOfContainers:
        if self.shown is None:
            raise RetryableError("podresources does not answer")
        return self.shown

    async def _run(self) -> frozenset[str] | None:
        return self.running

    async def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / CHECK_S) + 1):
            await self.checks.check()
            self.now_s += CHECK_S

    async def prepare(self, name: str, card: int) -> ClaimRef:
        claim = self.rig.allocate(name, share(f"card-{card}", 4))
        assert (await self.rig.kubelet.prepare(claim))[claim.uid].error == ""
        return claim

    def delete(self, claim: ClaimRef) -> None:
        delete(self.rig.api, "ResourceClaim", claim.name)

    def is_held(self, claim: ClaimRef) -> bool:
        return claim.uid in self.rig.app.observed.prepared.claims


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with ClaimsRig((16, 16)) as rig:
        await rig.start()
        async with KubeClient(KubeConfig(rig.api.url, "the test")) as client:
            yield Bench(rig, client)


@pytest.mark.parametrize("case", ["deleted", "recreated", "deallocated", "elsewhere"])
async def test_an_orphan_is_named_and_released(bench: Bench, case: str) -> None:
    orphan = await bench.prepare("orphan", 1)
    match case:
        case "deleted":
            bench.delete(orphan)
        case "recreated":  # The kubelet shows it under its name before it is prepared.
            bench.delete(orphan)
            again = bench.rig.allocate("orphan", share("card-1", 16))
            assert "hold the rest" in (await bench.rig.kubelet.prepare(again))[again.uid].error
            bench.shown = IN_USE
        case "deallocated":
            bench.rig.set_status("ResourceClaim", "orphan", allocation=None, reservedFor=None)
        case "elsewhere":
            moved = share("card-1", 4, request="card", driver=bench.rig.vendor.claims.driver, pool="node-2")
            bench.rig.set_status("ResourceClaim", "orphan", allocation={"devices": {"results": [moved]}})
    await bench.wait(UNSEEN_S)
    assert "default/orphan" in bench.checks.problem
    assert bench.is_held(orphan)
    await bench.wait(bench.checks.release_s)
    assert not bench.is_held(orphan)
    assert (bench.checks.problem, bench.events) == ("", ["ClaimReleased"])
    assert list((bench.rig.root / "cdi").iterdir()) == []


async def test_status_and_readyz_name_the_orphans(bench: Bench) -> None:
    orphan = await bench.prepare("orphan", 1)
    bench.delete(orphan)
    bench.rig.app.observed.checks._orphan_since = {orphan.uid: 0.0}
    assert bench.rig.app.observed.problems().keys() == {"claims"}
    code, text = await bench.rig.get("/readyz")
    assert code == 503
    assert "default/orphan" in text


@pytest.mark.parametrize("case", ["in a container", "not deleted", "not readable", "running", "no answer"])
async def test_a_claim_that_may_be_in_use_is_kept(bench: Bench, case: str) -> None:
    orphan = await bench.prepare("orphan", 1)
    if case != "not deleted":
        bench.delete(orphan)
    match case:
        case "in a container":
            bench.shown = IN_USE
        case "not readable":
            bench.shown = None
        case "running":
            bench.running = frozenset({"orphan"})
        case "no answer":
            bench.rig.api.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "no"), path="/resourceclaims/"))
    await bench.wait(UNSEEN_S + 2 * bench.checks.release_s)
    assert bench.is_held(orphan)
    assert bench.events == []
    assert bool(bench.checks.problem) == (case == "running")


async def test_a_container_that_shows_an_orphan_again_ends_its_time(bench: Bench) -> None:
    orphan = await bench.prepare("orphan", 1)
    bench.delete(orphan)
    await bench.wait(UNSEEN_S + bench.checks.release_s / 2)
    bench.shown = IN_USE
    await bench.wait(CHECK_S)
    assert bench.checks.problem == ""
    bench.shown = {}
    await bench.wait(bench.checks.release_s / 2)
    assert bench.is_held(orphan)
