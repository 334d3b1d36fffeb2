"""The kubelet double's device manager: registration, the receive limit, health, and the Node's resources."""

from __future__ import annotations

import asyncio
import socket
import stat

import grpc
import grpc.aio
import pytest

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.kubelet.plugins import STOP_GRACE_S
from tests.protocol.kubelet_rig import NODE, RESOURCE, Rig, container, pod, unit_ids
from tests.protocol.reference_plugin import ReferencePlugin, devices


def listing_of_bytes(size: int) -> bytes:
    """Encode two healthy devices, one with a very long id, into a message of exactly this size."""
    for length in range(size - 64, size):
        raw = devices(["000", "x" * length])
        if len(raw) == size:
            return raw
    raise AssertionError(f"no listing of {size} bytes")


async def test_a_registered_plugins_units_appear_on_the_node() -> None:
    async with Rig(units=16) as rig:
        assert rig.node_resources("capacity")[RESOURCE] == "16"
        assert rig.node_resources("allocatable")[RESOURCE] == "16"
        assert rig.plugin.calls.options == 1


@pytest.mark.parametrize(
    ("version", "resource", "message"),
    [
        pytest.param(
            "v1alpha1",
            RESOURCE,
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
            id="another version",
        ),
        pytest.param("v1beta1", "gcu-memory", 'the ResourceName "gcu-memory" is invalid', id="unqualified name"),
        pytest.param("v1beta1", "kubernetes.io/gcu", 'the ResourceName "kubernetes.io/gcu" is invalid', id="native"),
    ],
)
async def test_a_wrong_registration_is_refused_in_the_kubelets_words(version: str, resource: str, message: str) -> None:
    async with Rig(register=False) as rig:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rig.plugin.register(version=version, resource=resource)

        assert caught.value.code() is grpc.StatusCode.UNKNOWN
        assert caught.value.details() == message
        assert rig.plugin.calls.options == 0
        assert rig.kubelet.counts() == {}


async def test_starting_removes_every_other_socket_and_no_file() -> None:
    async with Rig() as rig:
        await rig.kubelet.stop()
        stale = rig.plugin_dir / "stale.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(stale))
        note = rig.plugin_dir / "note.txt"
        note.write_text("kept")

        await rig.kubelet.start()

        sockets = [path.name for path in rig.plugin_dir.iterdir() if stat.S_ISSOCK(path.lstat().st_mode)]
        assert sockets == ["kubelet.sock"]
        assert note.read_text() == "kept"
        assert rig.checkpoint_path.exists()


@pytest.mark.parametrize("word", ["Unhealthy", "healthy", "", "Degraded"])
async def test_every_health_but_exactly_healthy_counts_as_unhealthy(word: str) -> None:
    async with Rig(units=8) as rig:
        await rig.plugin.publish(devices(unit_ids(8), sick=["001", "002", "003"], health=word))
        await rig.wait_for_units(8, 5)


async def test_every_list_replaces_the_one_before() -> None:
    async with Rig(units=8) as rig:
        await rig.plugin.publish(devices(["900", "901"]))
        await rig.wait_for_units(2, 2)


async def test_a_message_of_exactly_the_receive_limit_passes() -> None:
    async with Rig() as rig:
        await rig.plugin.publish(listing_of_bytes(4_194_304))
        await rig.wait_for_units(2, 2)


async def test_one_byte_more_ends_the_stream_and_the_resource_goes_to_zero(caplog: pytest.LogCaptureFixture) -> None:
    async with Rig(units=16) as rig:
        await rig.plugin.publish(listing_of_bytes(4_194_305))
        await rig.wait_for_units(16, 0)

        reasons = [record.getMessage() for record in caplog.records if "ListAndWatch ended" in record.getMessage()]
        assert any("code = ResourceExhausted" in reason and "4194304" in reason for reason in reasons)


async def test_a_first_list_above_the_limit_never_shows_a_unit() -> None:
    async with Rig(register=False) as rig:
        await rig.plugin.publish(listing_of_bytes(4_194_305))
        await rig.plugin.register()
        await rig.wait_for_units(0, 0)


async def test_a_stopped_plugins_units_turn_unhealthy_at_once_and_go_after_five_minutes() -> None:
    async with Rig(units=16) as rig:
        await rig.plugin.stop()
        await rig.wait_for_units(16, 0)

        rig.clock.now += STOP_GRACE_S - 1
        await rig.kubelet.sync_node()
        assert rig.node_resources("capacity")[RESOURCE] == "16"

        rig.clock.now += 2
        await rig.wait_for_units(0, 0)
        assert rig.kubelet.counts() == {}


async def test_a_plugin_that_comes_back_within_the_grace_has_its_units_again() -> None:
    async with Rig(units=16) as rig:
        await rig.plugin.stop()
        await rig.wait_for_units(16, 0)
        await rig.serve_again()

        uid = await rig.run(pod("after", container("main", 4)))
        assert len(rig.ids(uid)) == 4


async def test_a_new_registration_replaces_the_endpoint() -> None:
    async with Rig(units=16) as rig:
        other = ReferencePlugin(rig.plugin_dir, RESOURCE, devices(unit_ids(32)), socket="other.sock")
        async with other:
            await other.register()
            await rig.wait_for_units(32, 32)
            await rig.run(pod("a", container("main", 2)))

            assert len(other.calls.allocated) == 1
            assert rig.plugin.calls.allocated == []


async def test_the_end_of_an_older_stream_stops_the_newer_endpoint_too() -> None:
    async with Rig(units=16) as rig:
        other = ReferencePlugin(rig.plugin_dir, RESOURCE, devices(unit_ids(32)), socket="other.sock")
        async with other:
            await other.register()
            await rig.wait_for_units(32, 32)
            await rig.plugin.stop()
            await rig.wait_for_units(32, 0)
            await other.publish(devices(unit_ids(24)))
            await rig.wait_for_units(24, 24)

            reason, message = await rig.fail(pod("a", container("main", 2)))
            assert reason == "UnexpectedAdmissionError"
            assert "has been stopped" in message


async def test_a_plugin_that_refuses_its_options_is_not_registered() -> None:
    async with Rig(register=False) as rig:
        await rig.plugin.stop()
        server = grpc.aio.server()
        server.add_insecure_port(f"unix:{rig.plugin_dir / 'reference.sock'}")
        await server.start()
        with pytest.raises(grpc.aio.AioRpcError, match="failed to get device plugin options") as caught:
            await rig.plugin.register()
        await server.stop(grace=None)

        assert "code = Unimplemented" in (caught.value.details() or "")
        assert rig.kubelet.registrations == 0


async def test_foreign_resources_are_copied_to_allocatable_and_kept() -> None:
    async with Rig(units=16) as rig:
        rig.api.patch_node_status({"capacity": {"enflame.com/gcu-count": "8"}})
        await rig.wait_for_units(8, 8, resource="enflame.com/gcu-count")

        await rig.plugin.publish(devices(unit_ids(20)))
        await rig.wait_for_units(20, 20)
        assert rig.node_resources("capacity")["enflame.com/gcu-count"] == "8"


async def test_an_allocatable_without_capacity_is_removed() -> None:
    async with Rig() as rig:
        rig.api.patch_node_status({"allocatable": {"enflame.com/ghost": "8"}})
        await rig.api.wait_until(
            lambda: "enflame.com/ghost" not in rig.node_resources("allocatable"), "the ghost is gone"
        )


@pytest.mark.parametrize(("is_new_machine", "expected"), [(True, "0"), (False, "8")])
async def test_a_kubelet_without_checkpoint_zeroes_extended_resources_of_an_existing_node(
    is_new_machine: bool, expected: str
) -> None:
    async with Rig() as rig:
        await rig.kubelet.stop()
        rig.api.patch_node_status(
            {"capacity": {"enflame.com/gcu-count": "8"}, "allocatable": {"enflame.com/gcu-count": "8"}}
        )
        if is_new_machine:
            rig.checkpoint_path.unlink()
        await rig.kubelet.start()
        await rig.kubelet.wait_ready()
        await rig.kubelet.sync_node()

        assert rig.node_resources("capacity")["enflame.com/gcu-count"] == expected
        assert rig.node_resources("allocatable")["enflame.com/gcu-count"] == expected
        assert rig.node_resources("capacity")["cpu"] == "64"


async def test_the_node_is_ready_and_its_lease_is_renewed() -> None:
    async with Rig(labels={"enflame.com/gcushare": "true"}) as rig:
        node = rig.api.node()
        conditions = {item["type"]: item["status"] for item in node["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert conditions["MemoryPressure"] == "False"
        assert node["metadata"]["labels"]["enflame.com/gcushare"] == "true"
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == NODE

        before = rig.api.lease()
        rig.clock.now += 11
        await rig.kubelet.sync_node()
        assert rig.api.lease() > before


@pytest.mark.slow
async def test_262144_ids_register_and_a_large_pod_gets_what_the_plugin_prefers() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"
    ids = [a + b + c for a in digits for b in digits for c in digits]
    raw = devices(ids)
    assert (len(ids), len(raw)) == (262_144, services.KUBELET_RECEIVE_LIMIT_BYTES)
    async with Rig(register=False) as rig:
        rig.plugin.prefer = lambda request: ids[-request.allocation_size :]
        rig.plugin.grant = lambda granted: pb.ContainerAllocateResponse(envs={"COUNT": str(len(granted))})
        await rig.plugin.publish(raw)
        await rig.plugin.register()
        await rig.wait_for_units(262_144, 262_144)

        uid = await rig.run(pod("large", container("main", 16_384)))

        assert rig.ids(uid) == frozenset(ids[-16_384:])
        assert rig.plugin.calls.preferred[0].available == frozenset(ids)
        view = rig.kubelet.container_view(uid, "main")
        assert view is not None
        assert view.environment["COUNT"] == "16384"


async def test_no_task_of_a_stopped_kubelet_is_left() -> None:
    async with Rig() as rig:
        before = asyncio.all_tasks()
        await rig.kubelet.restart()
        await rig.serve_again()
        await rig.run(pod("a", container("main", 1)))
        await rig.kubelet.stop()

        def left() -> list[str]:
            names = {task.get_name() for task in asyncio.all_tasks() - before}
            return [name for name in names if not name.startswith("Task-")]

        # gRPC ends the plugin's side of a closed stream in its own time.
        async with asyncio.timeout(5):
            while left():  # noqa: ASYNC110 - tasks have no event for their end
                await asyncio.sleep(0.01)
