"""The kubelet double's device manager: registration, the receive limit, health, and the Node's resources."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from gcushare_playground.kubelet.plugins import STOP_GRACE_S
from tests.protocol.kubelet_rig import RESOURCE, Rig, container, pod, unit_ids
from tests.protocol.reference_plugin import ReferencePlugin, devices


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


async def test_a_stopped_plugins_units_turn_unhealthy_at_once_and_go_after_five_minutes() -> None:
    async with Rig(units=16) as rig:
        await rig.plugin.stop()
        await rig.wait_for_units(16, 0)

        rig.clock.now_s += STOP_GRACE_S - 1
        await rig.kubelet.sync_node()
        assert rig.node_resources("capacity")[RESOURCE] == "16"

        rig.clock.now_s += 2
        await rig.wait_for_units(0, 0)
        assert rig.kubelet.counts() == {}


async def test_a_new_registration_replaces_the_endpoint() -> None:
    async with Rig(units=16) as rig:
        other = ReferencePlugin(rig.plugin_dir, RESOURCE, devices(unit_ids(32)), socket="other.sock")
        async with other:
            await other.register()
            await rig.wait_for_units(32, 32)
            await rig.run(pod("a", container("main", 2)))

            assert len(other.calls.allocated) == 1
            assert rig.plugin.calls.allocated == []


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
