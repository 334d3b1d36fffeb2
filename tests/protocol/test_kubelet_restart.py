"""The kubelet double across restarts: checkpoint, re-admission, pod resources, and the process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.core.errors import ConfigError
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.kubelet import KubeletSettings, PodResourcesMode
from tests.protocol.kubelet_rig import NODE, RESOURCE, Rig, container, pod, unit_ids
from tests.protocol.reference_plugin import devices


async def test_the_checkpoint_names_what_each_container_holds() -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 2)))
        data = json.loads(rig.checkpoint_path.read_text())["Data"]

        (entry,) = data["PodDeviceEntries"]
        assert (entry["PodUID"], entry["ContainerName"], entry["ResourceName"]) == (uid, "main", RESOURCE)
        assert entry["DeviceIDs"] == {"-1": ["000", "001"]}
        assert sorted(data["RegisteredDevices"][RESOURCE]) == unit_ids(8)


async def test_the_checkpoint_groups_ids_by_numa_node() -> None:
    async with Rig(units=2, register=False) as rig:
        listing = pb.ListAndWatchResponse(
            devices=[
                pb.Device(ID="000", health="Healthy", topology=pb.TopologyInfo(nodes=[pb.NUMANode(ID=1)])),
                pb.Device(ID="001", health="Healthy"),
            ]
        )
        await rig.plugin.publish(listing.SerializeToString())
        await rig.register()
        await rig.run(pod("a", container("main", 2)))

        (entry,) = json.loads(rig.checkpoint_path.read_text())["Data"]["PodDeviceEntries"]
        assert entry["DeviceIDs"] == {"-1": ["001"], "1": ["000"]}


async def test_an_ended_pod_stays_in_the_checkpoint_until_its_next_writing() -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 2)))
        await rig.kubelet.finish(uid)
        assert uid in rig.checkpoint_path.read_text()

        await rig.run(pod("b", container("main", 2)))
        assert uid not in rig.checkpoint_path.read_text()


async def test_running_pods_survive_a_restart_without_a_call() -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 4)))
        ids, view = rig.ids(uid), rig.kubelet.container_view(uid, "main")
        version = rig.api.pod("a")["metadata"]["resourceVersion"]
        await rig.kubelet.restart()
        await rig.kubelet.wait_ready()
        await rig.wait_for_units(0, 0)

        await rig.serve_again()
        assert rig.ids(uid) == ids
        assert rig.kubelet.container_view(uid, "main") == view
        assert rig.api.pod("a")["metadata"]["resourceVersion"] == version
        assert len(rig.plugin.calls.allocated) == 1
        second = await rig.run(pod("b", container("main", 4)))
        assert not rig.ids(second) & ids


async def test_pods_that_end_while_the_kubelet_is_down_free_their_units() -> None:
    async with Rig(units=4) as rig:
        uid = await rig.run(pod("a", container("main", 4)))
        await rig.kubelet.stop()
        rig.api.drop_pod("a")
        await rig.kubelet.start()
        await rig.kubelet.wait_ready()
        await rig.serve_again()
        await rig.run(pod("b", container("main", 4)))

        assert rig.kubelet.container_view(uid, "main") is None


async def test_a_pod_bound_while_the_kubelet_was_down_fails_before_its_plugin_is_back() -> None:
    async with Rig(units=4) as rig:
        await rig.kubelet.stop()
        await rig.bind(pod("a", container("main", 2)))
        await rig.kubelet.start()

        failed = await rig.api.wait_for_pod("a", "Failed")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
        assert (
            f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}" in failed["status"]["message"]
        )


async def restart_with_sick_units(rig: Rig, *, reboot: bool) -> None:
    """Restart, bring the plugin back with its first unit sick, and only then let the pods through admission."""
    rig.kubelet.faults.admission_open.clear()
    await rig.kubelet.restart(reboot=reboot)
    await rig.plugin.stop()
    await rig.plugin.serve()
    await rig.plugin.publish(devices(unit_ids(rig.units), sick=["000"]))
    await rig.plugin.register()
    await rig.wait_for_units(rig.units, rig.units - 1)
    rig.kubelet.faults.admission_open.set()
    await rig.kubelet.wait_ready()


async def test_a_pod_with_a_sick_unit_fails_its_readmission_when_its_container_does_not_run() -> None:
    async with Rig(units=8) as rig:
        await rig.run(pod("a", container("main", 2)))
        await restart_with_sick_units(rig, reboot=True)

        failed = await rig.api.wait_for_pod("a", "Failed")
        assert "previously allocated devices are no longer healthy" in failed["status"]["message"]


async def test_a_pod_with_a_sick_unit_goes_on_when_its_container_runs() -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 2)))
        await restart_with_sick_units(rig, reboot=False)

        assert rig.api.pod("a")["status"]["phase"] == "Running"
        assert rig.ids(uid) == {"000", "001"}


async def test_after_a_reboot_a_healthy_pods_containers_start_again_with_the_stored_answer() -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 2)))
        rig.kubelet.faults.admission_open.clear()
        await rig.kubelet.restart(reboot=True)
        await rig.serve_again()
        rig.kubelet.faults.admission_open.set()
        await rig.kubelet.wait_ready()
        await rig.api.wait_until(lambda: rig.kubelet.container_view(uid, "main") is not None, "the container runs")

        view = rig.kubelet.container_view(uid, "main")
        assert view is not None
        assert view.environment == {"GRANTED": "000,001"}
        assert len(rig.plugin.calls.allocated) == 1


async def test_a_corrupt_checkpoint_is_logged_and_nothing_is_known_then(caplog: pytest.LogCaptureFixture) -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 6)))
        await rig.kubelet.stop()
        rig.checkpoint_path.write_text('{"Data":')
        await rig.kubelet.start()
        await rig.kubelet.wait_ready()
        await rig.serve_again()

        assert any("checkpoint unreadable" in record.getMessage() for record in caplog.records)
        assert rig.ids(uid) == frozenset()
        assert rig.api.pod("a")["status"]["phase"] == "Running"
        # The device manager would give the running pod's units away; the node's own sum refuses what goes beyond it.
        reason, message = await rig.fail(pod("b", container("main", 4)))
        assert reason == f"OutOf{RESOURCE}"
        assert "requested: 4, used: 6, capacity: 8" in message


async def test_a_kubelet_that_dies_between_preference_and_allocate_has_granted_nothing() -> None:
    async with Rig(units=4) as rig:
        reached = asyncio.Event()

        async def never(uid: str, name: str) -> None:
            reached.set()
            await asyncio.Event().wait()

        rig.kubelet.faults.before_allocate = never
        await rig.bind(pod("a", container("main", 4)))
        async with asyncio.timeout(10):
            await reached.wait()
        await rig.kubelet.stop()
        rig.kubelet.faults.before_allocate = None
        rig.kubelet.faults.admission_open.clear()
        await rig.kubelet.start()
        await rig.serve_again()
        rig.kubelet.faults.admission_open.set()
        await rig.api.wait_for_pod("a", "Running")

        assert len(rig.plugin.calls.preferred) == 2
        assert len(rig.plugin.calls.allocated) == 1


async def test_podresources_lists_ids_of_active_pods_without_ended_init_containers() -> None:
    async with Rig(units=16) as rig:
        sidecar = container("proxy", 1, restartPolicy="Always")
        uid = await rig.run(pod("a", container("main", 2), init=[container("init", 2), sidecar]))
        done = await rig.run(pod("done", container("main", 2)))
        await rig.kubelet.finish(done)

        assert await rig.list_podresources() == {"a": {"proxy": rig.ids(uid, "proxy"), "main": rig.ids(uid, "main")}}


async def test_podresources_shows_a_fresh_allocation_only_after_its_delay() -> None:
    async with Rig() as rig:
        rig.kubelet.faults.podresources_delay_s = (0.025, 0.025)
        uid = await rig.run(pod("a", container("main", 2)))
        assert await rig.list_podresources() == {"a": {"main": frozenset()}}

        rig.clock.now += 0.03
        assert await rig.list_podresources() == {"a": {"main": rig.ids(uid)}}


async def test_podresources_can_refuse_hang_and_be_missing() -> None:
    async with Rig() as rig:
        rig.kubelet.faults.podresources = PodResourcesMode.REFUSE
        with pytest.raises(grpc.aio.AioRpcError, match="switched off"):
            await rig.list_podresources()
        rig.kubelet.faults.podresources = PodResourcesMode.HANG
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rig.list_podresources(timeout_s=0.1)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with Rig(podresources=False) as rig:
        assert not (rig.root / "pod-resources").exists()


async def test_podresources_refuses_calls_above_its_rate() -> None:
    async with Rig() as rig:
        for _ in range(10):
            await rig.list_podresources()
        with pytest.raises(grpc.aio.AioRpcError, match="rejected by rate limit") as caught:
            await rig.list_podresources()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

        rig.clock.now += 0.011
        await rig.list_podresources()


def test_a_root_folder_too_long_for_sockets_is_refused() -> None:
    with pytest.raises(ConfigError, match="shorter"):
        KubeletSettings(node_name=NODE, root_dir=Path("/tmp") / ("x" * 90))
    KubeletSettings(node_name=NODE, root_dir=Path("/tmp") / ("x" * 50))


async def test_the_process_serves_its_socket_without_an_api_server_and_ends_on_sigterm() -> None:
    with tempfile.TemporaryDirectory(prefix="kubelet-") as root:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gcushare_playground.kubelet"),
            *("--node", NODE, "--root", root, "--server", "http://127.0.0.1:9"),
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with asyncio.timeout(30):
                while b"kubelet serving" not in (line := await process.stderr.readline()):
                    assert line, "the process ended before it served"
                assert (Path(root) / "device-plugins" / "kubelet.sock").is_socket()
                process.send_signal(signal.SIGTERM)
                await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0
