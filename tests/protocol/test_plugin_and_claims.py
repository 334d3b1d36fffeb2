"""A device plugin on a node whose cards claims still hold."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.device_plugin.kubelet.claims_conflict import QUIET_S, ClaimsConflict
from gcushare.vendors import ENFLAME
from gcushare.wire.protos import podresources_pb2, services
from tests.manual_clock import ManualClock

DRIVER = ENFLAME.claims.driver


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
