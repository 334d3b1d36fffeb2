"""The kubelet double across restarts: checkpoint, re-admission, pod resources, and the process."""

from __future__ import annotations

import asyncio

from tests.protocol.kubelet_rig import Rig, container, pod, unit_ids
from tests.protocol.reference_plugin import devices


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


async def test_a_kubelet_that_dies_between_preference_and_allocate_has_granted_nothing() -> None:
    async with Rig(units=4) as rig:
        reached = asyncio.Event()

        async def never(uid: str, name: str) -> None:
            reached.set()
            await asyncio.Event().wait()

        rig.kubelet.faults.before_allocate = never
        await rig.bind(pod("a", container("main", 4)))
        async with asyncio.timeout(60):
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
