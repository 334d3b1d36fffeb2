"""The kubelet double's admission: order, choice of ids, errors in the kubelet's words, and what containers see."""

from __future__ import annotations

import grpc
import pytest

from gcushare_playground.kubelet import shuffled
from tests.protocol.kubelet_rig import Rig, container, pod
from tests.protocol.reference_plugin import CallFailure


async def admitted_order(rig: Rig, count: int) -> list[int]:
    """Bind pods that ask for 1, 2, 3, ... units while admission waits, and return the order it then takes."""
    rig.kubelet.faults.admission_open.clear()
    for number in range(1, count + 1):
        await rig.bind(pod(f"pod-{number:02d}", container("main", number)))
    await rig.kubelet.gather_pods(count)
    rig.kubelet.faults.admission_open.set()
    for number in range(1, count + 1):
        await rig.api.wait_for_pod(f"pod-{number:02d}", "Running")
    return [len(ids) for ids in rig.plugin.calls.allocated]


async def test_a_batch_is_admitted_in_an_order_that_is_not_the_binding_order_and_repeats_with_its_seed() -> None:
    orders = []
    for _ in range(2):
        async with Rig(units=128, order=shuffled(7), batch_window_s=0.02) as rig:
            orders.append(await admitted_order(rig, 12))

    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(1, 13))
    assert orders[0] != list(range(1, 13))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        pytest.param(
            "grant",
            "Pod was rejected: Allocate failed due to rpc error: code = ResourceExhausted desc = card 0 is full, "
            "which is unexpected",
            id="Allocate",
        ),
        pytest.param(
            "prefer",
            "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: "
            "rpc error: code = ResourceExhausted desc = card 0 is full, which is unexpected",
            id="GetPreferredAllocation",
        ),
    ],
)
async def test_an_error_of_either_call_fails_the_pod_with_its_text(method: str, message: str) -> None:
    async with Rig(units=4) as rig:

        def refuse(_: object) -> list[str]:
            raise CallFailure(grpc.StatusCode.RESOURCE_EXHAUSTED, "card 0 is full")

        works = getattr(rig.plugin, method)
        setattr(rig.plugin, method, refuse)
        assert await rig.fail(pod("a", container("main", 4))) == ("UnexpectedAdmissionError", message)
        await rig.api.wait_until(lambda: bool(rig.api.events()), "an event")
        (event,) = rig.api.events()
        assert (event["reason"], event["type"]) == ("UnexpectedAdmissionError", "Warning")
        assert event["message"] == message.removeprefix("Pod was rejected: ")

        setattr(rig.plugin, method, works)
        await rig.run(pod("b", container("main", 4)))


async def test_later_containers_take_over_an_init_containers_units() -> None:
    async with Rig(units=16) as rig:
        uid = await rig.run(pod("a", container("main", 6), container("side", 4), init=[container("init", 4)]))

        init, main, side = (rig.ids(uid, name) for name in ("init", "main", "side"))
        assert init < main
        assert not main & side
        # The init container asks, then main asks with the init container's ids as a must; side asks for its own.
        assert [call.must_include for call in rig.plugin.calls.preferred] == [frozenset(), init, frozenset()]
        assert [call.size for call in rig.plugin.calls.preferred] == [4, 6, 4]
        assert rig.plugin.calls.preferred[1].available >= init
