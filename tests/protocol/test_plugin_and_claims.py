"""A device plugin on a node whose cards claims still hold."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import msgspec
import pytest

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY
from gcushare.core.errors import ForbiddenError
from gcushare.device_plugin.kubelet.conflicts import QUIET_S, UNKNOWN_S, AllocatedClaims, ClaimsConflict
from gcushare.device_plugin.reporting.status import problems
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, ResourceClaim
from gcushare.wire.protos import podresources_pb2, services
from tests.manual_clock import ManualClock
from tests.protocol.claims_rig import NODE, ClaimsRig, share
from tests.protocol.plugin_rig import PluginRig
from tests.unit.claims_driver_values import a_claim, a_result

DRIVER = ENFLAME.claims.driver
INVENTORY = ENFLAME.inventory_annotation


@asynccontextmanager
async def pod_resources(answer: Callable[[], bytes]) -> AsyncIterator[Path]:
    """Serve podresources with this answer."""

    async def handle(_request: bytes, _context: object) -> bytes:
        return answer()

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(handle)
    name = services.short_name(services.POD_RESOURCES_LIST)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(services.POD_RESOURCES_SERVICE, {name: handler}),)
    )
    with tempfile.TemporaryDirectory(prefix="pods-") as folder:
        socket = Path(folder) / "kubelet.sock"
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield socket
        finally:
            await server.stop(None)


def a_pod_with_a_claim_of(driver: str) -> bytes:
    response = podresources_pb2.ListPodResourcesResponse()
    container = response.pod_resources.add(name="trainer", namespace="ml").containers.add(name="main")
    container.dynamic_resources.add(claim_name="c", claim_namespace="ml").claim_resources.add(driver_name=driver)
    return response.SerializeToString()


async def other_plugin() -> str:
    return "another plugin"


def conflict_on(socket: Path, clock: ManualClock, then: Callable[[], Awaitable[str]] | None = None) -> ClaimsConflict:
    return ClaimsConflict(socket, DRIVER, ENFLAME.memory_resource, clock=clock, then=then)


async def test_nothing_is_registered_until_a_minute_after_the_last_claim_was_seen() -> None:
    answers, clock = [a_pod_with_a_claim_of(DRIVER)], ManualClock()
    async with pod_resources(lambda: answers[0]) as socket:
        conflict = conflict_on(socket, clock)
        assert (await conflict.find()).startswith(f"pods hold claims of {DRIVER} on this node's cards (ml/trainer)")
        answers[0] = b""
        assert "ml/trainer" in await conflict.find(), "a kubelet that starts lists no pods"
        clock.advance(QUIET_S)
        assert await conflict.find() == ""


@pytest.mark.parametrize("then", [pytest.param(None, id="no more"), pytest.param(other_plugin, id="asked on")])
async def test_claims_of_another_driver_are_no_reason(then: Callable[[], Awaitable[str]] | None) -> None:
    async with pod_resources(lambda: a_pod_with_a_claim_of("gpu.nvidia.com")) as socket:
        assert await conflict_on(socket, ManualClock(), then).find() == ("another plugin" if then else "")


async def test_a_kubelet_that_stops_answering_keeps_the_plugin_waiting_only_if_there_were_claims() -> None:
    answers = [a_pod_with_a_claim_of(DRIVER)]
    async with pod_resources(lambda: answers[0]) as socket:
        seen, unseen = conflict_on(socket, ManualClock()), conflict_on(socket, ManualClock())
        await seen.find()
        answers.clear()
        assert "ml/trainer" in await seen.find()
        assert await unseen.find() == ""


async def test_a_kubelet_without_podresources_has_no_claims(tmp_path: Path) -> None:
    assert await conflict_on(tmp_path / "none.sock", ManualClock()).find() == ""


async def test_a_node_that_served_claims_waits_a_minute_even_if_the_kubelet_lists_no_claim() -> None:
    clock = ManualClock()
    async with pod_resources(lambda: b"") as socket:
        conflict = ClaimsConflict(socket, DRIVER, ENFLAME.memory_resource, clock=clock, served_claims=lambda: True)
        assert "none is listed, but the node served claims until now" in await conflict.find()
        clock.advance(QUIET_S)
        assert await conflict.find() == ""


async def test_it_waits_a_moment_for_the_node_and_serves_without_the_api_server() -> None:
    clock = ManualClock()
    async with pod_resources(lambda: b"") as socket:
        conflict = ClaimsConflict(socket, DRIVER, ENFLAME.memory_resource, clock=clock, served_claims=lambda: None)
        assert (await conflict.find()).startswith("the Node was not read yet")
        clock.advance(UNKNOWN_S)
        assert await conflict.find() == ""


async def test_a_node_moves_to_claims_only_once_the_plugin_and_its_pods_are_gone() -> None:
    """Both programs on one node: at no moment do both offer its cards."""
    async with PluginRig(cards=(16, 16)) as plugin:
        plugin.bind("old", 4, card=0)
        await plugin.until_recorded("old")
        claims = ClaimsRig()
        claims.root, claims.api = plugin.root, plugin.api
        try:
            await claims.start(until_published=False)
            waits = claims.app.observed.problems
            await claims.until(lambda: "still offers" in waits().get("cards", ""), "it waits for the plugin")
            assert claims.slices() == []
            await plugin.end_plugin()
            await claims.until(lambda: "default/old" in waits().get("cards", ""), "it waits for the plugin's pod")
            assert claims.slices() == []
            assert plugin.published().modes == (SERVES_MEMORY,), "the plugin's pods are counted in its unit"
            await plugin.finish("old")
            await claims.until(lambda: bool(claims.slices()), "its cards are offered to claims")
            await claims.until(lambda: plugin.published().modes == (SERVES_CLAIMS,), "every reader learns it")
        finally:
            await claims.stop()


async def test_a_plugin_that_follows_a_claims_driver_registers_nothing_at_first() -> None:
    async with PluginRig(cards=(16, 16), plugin_first=False) as plugin:
        claims = ClaimsRig()
        claims.root, claims.api = plugin.root, plugin.api
        try:
            await claims.start(until_published=False)
            await claims.until(lambda: bool(claims.slices()), "its cards are offered to claims")
            await claims.until(lambda: INVENTORY in plugin.node()["metadata"].get("annotations", {}), "published")
        finally:
            await claims.stop()
        await plugin.start_plugin()
        waits = "the node served claims until now"
        await plugin.until(lambda: waits in str(problems(plugin.app.observed)), "it waits")
        assert plugin.kubelet.counts().get(ENFLAME.memory_resource) is None


async def test_claims_that_are_allocated_and_not_prepared_keep_the_plugin_from_registering() -> None:
    async with PluginRig(cards=(16, 16), plugin_first=False) as plugin:
        claims = ClaimsRig()
        claims.root, claims.api = plugin.root, plugin.api
        claims.allocate("elsewhere", share("card-0", 4, pool="node-2"))
        claims.run_pod("other", "elsewhere")
        claims.allocate("ours", share("card-0", 4))
        claims.run_pod("waiting", "ours")
        await plugin.start_plugin()
        waits = f"pods hold claims of {DRIVER} on this node's cards (default/waiting)"
        await plugin.until(lambda: waits in str(problems(plugin.app.observed)), "it waits")
        assert plugin.kubelet.counts().get(ENFLAME.memory_resource) is None


async def test_each_claim_is_read_once_and_one_that_cannot_be_read_again_and_again() -> None:
    reads: list[str] = []

    async def get_claim(_namespace: str, name: str) -> ResourceClaim:
        reads.append(name)
        if name == "forbidden":
            raise ForbiddenError("resourceclaims is forbidden")
        return a_claim(name, a_result("card-0", 4, pool=NODE if name == "here" else "node-2"))

    found = AllocatedClaims(get_claim, DRIVER, NODE)
    for name in ("here", "away", "forbidden"):
        status = {"phase": "Pending", "resourceClaimStatuses": [{"name": "c", "resourceClaimName": name}]}
        meta = {"name": f"pod-{name}", "namespace": "d", "uid": name}
        found.on_pod_update(POD_WITH_CLAIMS.read(msgspec.json.encode({"metadata": meta, "status": status})))
    for _ in range(2):
        assert await found.find_pods() == ["d/pod-here"]
    assert sorted(reads) == ["away", "forbidden", "forbidden", "here"]
    found.on_pod_resync({"away"})
    assert await found.find_pods() == []
