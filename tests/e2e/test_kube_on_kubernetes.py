"""The client of the API server against kube-apiserver: what is expected of it on the double, and more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import GoneError, InvalidError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import EVENTS, LEASES, NODES, PODS, Resource
from tests.e2e.control_plane import ControlPlane
from tests.protocol.test_kube_on_apiserver import (  # noqa: F401 - collected here, on this module's fixtures
    make_pod,
    read,
    test_a_bind_of_a_pod_that_is_not_there,
    test_a_bind_sets_the_node_and_the_record_in_one_step,
    test_a_delete_with_another_uid_deletes_nothing,
    test_a_lease_is_taken_kept_and_handed_over,
    test_a_lease_written_by_others_keeps_what_we_do_not_know,
    test_a_name_taken_is_distinguished_from_a_change_in_between,
    test_a_patch_of_the_status_changes_no_spec_and_no_owner,
    test_a_picture_that_catches_up_holds_what_was_written_before,
    test_a_reflector_outlives_restarts_of_the_server,
    test_a_second_bind_and_one_of_another_uid_change_nothing,
    test_annotations_and_a_kubelets_reports_keep_each_other_also_while_the_pod_ends,
    test_annotations_are_set_and_removed_for_the_right_uid_only,
    test_events_appear_next_to_their_object,
    test_lists_page_and_select,
    test_node_capacity_is_set_in_addition_to_what_the_kubelet_reports_and_removed_again,
)


@dataclass(frozen=True, slots=True)
class RestartedServer:
    """What the tests need of a server in addition to its answers."""

    control_plane: ControlPlane

    async def restart(self) -> None:
        """Kill kube-apiserver and start it again."""
        await self.control_plane.children["kube-apiserver"].kill()
        await self.control_plane.start_api_server()
        await self.control_plane.wait_ready()


@pytest_asyncio.fixture(loop_scope="module")
async def server(control_plane: ControlPlane) -> RestartedServer:
    return RestartedServer(control_plane)


@pytest_asyncio.fixture(loop_scope="module")
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    """Give each test the empty cluster and the one node that it would have on the double."""
    opened = control_plane.client
    await opened.create(NODES, {"metadata": {"name": "node-1"}})
    yield opened
    for resource in (PODS, EVENTS, LEASES):
        for name, namespace in await _names(opened, resource):
            await opened.delete(resource, name, namespace=namespace, grace_s=0)
    await opened.delete(NODES, "node-1")


async def _names(client: KubeClient, resource: Resource[Any]) -> list[tuple[str, str]]:
    found = await client.list_all(Resource(resource.prefix, resource.plural, dict))
    pairs = [(each["metadata"]["name"], each["metadata"]["namespace"]) for each in found]
    return [(name, namespace) for name, namespace in pairs if not name.startswith("apiserver-")]


async def test_a_watch_from_a_forgotten_version_is_asked_to_list_again(
    server: RestartedServer, client: KubeClient
) -> None:
    await make_pod(client)
    # Its watch cache begins again, with the version of now.
    await server.restart()
    with pytest.raises(GoneError):
        async with client.watch(PODS, resource_version="1", timeout_s=60, stall_s=75) as events:
            await anext(aiter(events))


async def test_another_uid_in_a_patch_is_no_precondition_but_a_change_that_is_refused(client: KubeClient) -> None:
    pod = await make_pod(client)
    other = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}
    with pytest.raises(InvalidError) as caught:
        await client.patch(PODS, pod.name, Patch(PatchKind.MERGE, other), namespace=pod.namespace)
    assert "metadata.uid" in caught.value.fields


async def test_a_bindings_annotations_replace_what_the_author_of_the_pod_wrote(client: KubeClient) -> None:
    pod = await make_pod(client)
    await client.patch_pod_annotations(pod, {"enflame.com/gcu-device-id": "7", "kept": "yes"})
    await client.bind_pod(pod, "node-1", {"enflame.com/gcu-device-id": "0"})
    bound = await read(client, pod)
    assert bound.metadata.annotations == {"enflame.com/gcu-device-id": "0", "kept": "yes"}


async def test_a_pod_that_was_written_since_is_not_bound(client: KubeClient) -> None:
    pod = await make_pod(client)
    before = (await read(client, pod)).metadata.resource_version
    await client.patch_pod_annotations(pod, {"written": "since"})
    with pytest.raises(ConflictError):
        await client.bind_pod(pod, "node-1", {}, resource_version=before)
    now = await read(client, pod)
    assert not now.is_bound
    await client.bind_pod(pod, "node-1", {}, resource_version=now.metadata.resource_version)
    assert (await read(client, pod)).is_bound


async def test_a_pod_that_is_being_deleted_is_not_bound(client: KubeClient) -> None:
    body = {"metadata": {"name": "ends", "finalizers": ["example.com/wait"]}, "spec": _spec()}
    made = await client.create(PODS, body, namespace="default")
    await client.delete(PODS, "ends", namespace="default")
    with pytest.raises(ConflictError):
        await client.bind_pod(PodRef(made.metadata.uid, "default", "ends"), "node-1", {})
    await client.patch(PODS, "ends", Patch(PatchKind.MERGE, {"metadata": {"finalizers": None}}), namespace="default")


async def test_of_many_binds_at_once_one_wins(client: KubeClient) -> None:
    pod = await make_pod(client)
    binds = (client.bind_pod(pod, "node-1", {"winner": str(number)}) for number in range(8))
    outcomes = await asyncio.gather(*binds, return_exceptions=True)
    winners = [number for number, outcome in enumerate(outcomes) if outcome is None]
    assert len(winners) == 1
    assert all(isinstance(outcome, ConflictError) for outcome in outcomes if outcome is not None)
    assert (await read(client, pod)).metadata.annotations == {"winner": str(winners[0])}


def _spec() -> dict[str, object]:
    return {"containers": [{"name": "main", "image": "i"}]}
