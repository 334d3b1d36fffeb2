"""What a kubelet does with a device plugin and its pods, here the double; tests/e2e plays the same with a real one."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import grpc
import grpc.aio
import pytest

from gcushare.core.errors import NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.kubelet import Kubelet, KubeletSettings, NodeApi
from gcushare_playground.picture import POD_OBJECTS, phase_of, poll_until
from tests.protocol.node_under_test import IDS, NODE, JsonObject, NodeUnderTest
from tests.protocol.reference_plugin import CallFailure, ReferencePlugin, devices


class DoubledKubelet:
    """The kubelet double with an API server double."""

    image = "image:1"

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self.client: KubeClient
        self.root: Path
        self._kubelet: Kubelet

    async def __aenter__(self) -> Self:
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelet-")))
        settings = KubeletSettings(
            node_name=NODE, root_dir=self.root, batch_window_s=0.0, termination_s=0.0, status_interval_s=0.02
        )
        enter = self._stack.enter_async_context
        server = await enter(ApiServer(ApiServerConfig(runs_controllers=False)))
        self.client = await enter(KubeClient(KubeConfig(server=server.url, source="the playground")))
        self._kubelet = await enter(Kubelet(settings, await enter(NodeApi(server.url))))
        await self._kubelet.wait_ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def restart(self) -> None:
        await self._kubelet.restart()

    async def end_container(self, pod: JsonObject, container: str) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"]["restartPolicy"] == "Never":
            await self._kubelet.finish(uid)
        else:
            await self._kubelet.restart_container(uid, container)

    async def environment(self, pod: JsonObject, container: str) -> Mapping[str, str]:
        view = self._kubelet.container_view(pod["metadata"]["uid"], container)
        assert view is not None
        return view.environment


@pytest.fixture(name="node")
async def _doubled_node() -> AsyncIterator[NodeUnderTest]:
    async with DoubledKubelet() as backend, NodeUnderTest(backend) as started:
        yield started


# Registration and lists


async def test_capacity_counts_all_ids_and_allocatable_those_that_are_healthy(node: NodeUnderTest) -> None:
    await node.plugin.publish(devices(IDS, sick=IDS[:2]))
    await node.offers(8, 6)
    assert node.recorded_ids() == sorted(IDS[2:])
    await node.plugin.publish(devices(IDS, sick=IDS[:3], health=""))
    await node.offers(8, 5)
    await node.plugin.publish(devices(IDS[:7]))
    await node.offers(7, 7)
    await node.plugin.publish(devices(()))
    await node.offers(0, 0)
    assert node.recorded_ids() == []
    await node.plugin.publish(devices(IDS))
    await node.offers(8, 8)


@pytest.mark.parametrize(
    ("registration", "message"),
    [
        (
            {"version": "v1alpha1"},
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ({"resource": "resource-1"}, 'the ResourceName "resource-1" is invalid'),
        ({"resource": "kubernetes.io/gcu"}, 'the ResourceName "kubernetes.io/gcu" is invalid'),
    ],
    ids=["another version", "a resource without a domain", "a resource of Kubernetes"],
)
async def test_a_registration_that_is_none_is_refused(
    node: NodeUnderTest, registration: dict[str, str], message: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await node.plugin.register(**registration)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, message)
    await node.offers(8, 8)


def no_healthy_device(node: NodeUnderTest) -> tuple[str, str]:
    """Reason and message of a pod that comes while the plugin is away."""
    problem = "no healthy devices present; cannot allocate unhealthy devices"
    return (
        "UnexpectedAdmissionError",
        f"Pod was rejected: Allocate failed due to {problem} {node.resource}, which is unexpected",
    )


async def test_a_kubelet_that_starts_removes_the_sockets_of_plugins_and_keeps_what_pods_hold(
    node: NodeUnderTest,
) -> None:
    uid = await node.run("before", node.container("main", 3))
    held, other = node.held(uid), node.plugin_dir / "notes"
    other.write_text("not a socket")
    await node.restart_kubelet()
    assert not list(node.plugin_dir.glob("plugin-*.sock"))
    assert other.exists()
    await node.offers(0, 0)
    assert await node.refused("early", node.container("main", 1)) == no_healthy_device(node)
    await node.start_plugin()
    assert node.held(uid) == held
    await node.until_listed({"default/before": {"main": held}})
    after = await node.run("after", node.container("main", 5))
    assert node.held(after) == frozenset(IDS) - held
    await node.until_phase("before", "Running")
    assert [len(ids) for ids in node.plugin.calls.allocated] == [3, 5]


async def test_a_pod_keeps_ids_that_become_sick_or_vanish(node: NodeUnderTest) -> None:
    uid = await node.run("before", node.container("main", 3))
    held = node.held(uid)
    await node.plugin.publish(devices(IDS, sick=held))
    await node.offers(8, 5)
    await node.plugin.publish(devices(frozenset(IDS) - held))
    await node.offers(5, 5)
    after = await node.run("after", node.container("main", 5))
    await node.until_listed({"default/before": {"main": held}, "default/after": {"main": node.held(after)}})
    await node.until_phase("before", "Running")


async def test_a_plugin_that_is_gone_offers_nothing_until_it_registers_again(node: NodeUnderTest) -> None:
    uid = await node.run("before", node.container("main", 3))
    await node.plugin.stop()
    await node.offers(8, 0)
    assert await node.refused("refused", node.container("main", 1)) == no_healthy_device(node)
    assert len(node.held(uid)) == 3
    await node.start_plugin()
    after = await node.run("after", node.container("main", 5))
    assert node.held(after) == frozenset(IDS) - node.held(uid)


async def test_the_end_of_an_older_stream_takes_the_newer_plugin_away_too(node: NodeUnderTest) -> None:
    async with ReferencePlugin(node.plugin_dir, node.resource, devices(IDS[:5]), socket="newer.sock") as newer:
        await newer.register()
        await node.offers(5, 5)
        await node.plugin.stop()
        await node.offers(5, 0)


async def test_a_list_larger_than_the_kubelet_receives_ends_the_stream(node: NodeUnderTest) -> None:
    ids = [f"{number:03}{'x' * 60_000}" for number in range(services.KUBELET_RECEIVE_LIMIT_BYTES // 60_000 + 1)]
    await node.plugin.publish(devices(ids))
    await node.offers(8, 0)


# Admission


async def test_init_containers_sidecars_and_containers_are_given_ids_in_their_order(node: NodeUnderTest) -> None:
    uid = await node.run(
        "all",
        node.container("main", 3),
        node.container("side", 1),
        init=[node.init("first", 2), node.sidecar("sidecar", 2), node.init("second", 1)],
    )
    names = ("first", "sidecar", "second", "main", "side")
    first, sidecar, second, main, side = held = [node.held(uid, name) for name in names]
    assert node.plugin.calls.allocated == held
    assert [len(ids) for ids in held] == [2, 2, 1, 3, 1]
    # An init container's ids go to the next that asks; a sidecar keeps those that it was given.
    assert sidecar == first
    assert second < main
    assert not sidecar & main
    assert not side & (sidecar | main)
    await node.until_listed({"default/all": {"sidecar": sidecar, "main": main, "side": side}})


async def test_the_ids_of_an_init_container_must_be_in_what_is_preferred_next(node: NodeUnderTest) -> None:
    uid = await node.run("grows", node.container("main", 5), node.container("side", 2), init=[node.init("init", 3)])
    init, main, side = (node.held(uid, name) for name in ("init", "main", "side"))
    first, second, third = node.plugin.calls.preferred
    assert (first.available, first.must_include, first.size) == (frozenset(IDS), frozenset(), 3)
    assert (second.available, second.must_include, second.size) == (frozenset(IDS), init, 5)
    assert (third.available, third.must_include, third.size) == (frozenset(IDS) - main, frozenset(), 2)
    assert init < main
    assert not main & side


async def test_ids_that_are_used_again_suffice_without_a_question_and_stay_with_the_pod(node: NodeUnderTest) -> None:
    uid = await node.run("shrinks", node.container("main", 2), init=[node.init("init", 6)])
    assert node.held(uid) < node.held(uid, "init")
    assert len(node.plugin.calls.preferred) == 1
    assert [len(ids) for ids in node.plugin.calls.allocated] == [6, 2]
    assert await node.refused("more", node.container("main", 3)) == (
        "UnexpectedAdmissionError",
        f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {node.resource}. "
        "Requested: 3, Available: 2, which is unexpected",
    )


async def test_the_plugin_is_asked_also_where_every_free_id_is_needed(node: NodeUnderTest) -> None:
    uid = await node.run("all", node.container("main", 8))
    assert node.held(uid) == frozenset(IDS)
    assert [call.size for call in node.plugin.calls.preferred] == [8]


async def test_a_plugin_that_prefers_nothing_is_not_asked(node: NodeUnderTest) -> None:
    node.plugin.options = pb.DevicePluginOptions(get_preferred_allocation_available=False)
    await node.plugin.register()
    uid = await node.run("any", node.container("main", 2))
    assert node.plugin.calls.preferred == []
    assert node.plugin.calls.allocated == [node.held(uid)]


@pytest.mark.parametrize(
    ("preferred", "kept"),
    [
        pytest.param(("id-3", "id-6"), {"id-3", "id-6"}, id="as many"),
        pytest.param(("id-6",), {"id-6"}, id="too few"),
        pytest.param((), set(), id="none"),
        pytest.param(("id-6", "id-77"), {"id-6"}, id="one that does not exist"),
    ],
)
async def test_what_is_preferred_is_taken_and_filled_up(
    node: NodeUnderTest, preferred: tuple[str, ...], kept: set[str]
) -> None:
    node.plugin.prefer = lambda _: list(preferred)
    uid = await node.run("two", node.container("main", 2))
    assert kept <= node.held(uid) <= frozenset(IDS)
    assert len(node.held(uid)) == 2


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        pytest.param("grant", "", id="Allocate"),
        pytest.param("prefer", "device plugin GetPreferredAllocation rpc failed with err: ", id="preferred"),
    ],
)
async def test_an_error_of_the_plugin_fails_the_pod_with_its_text_and_frees_the_ids(
    node: NodeUnderTest, method: str, problem: str
) -> None:
    def refuse(_: object) -> list[str]:
        raise CallFailure(grpc.StatusCode.RESOURCE_EXHAUSTED, "card 0 is full")

    works = getattr(node.plugin, method)
    setattr(node.plugin, method, refuse)
    text = (
        f"Allocate failed due to {problem}rpc error: code = ResourceExhausted desc = card 0 is full, "
        "which is unexpected"
    )
    reason, message = await node.refused("refused", node.container("main", 8))
    assert (reason, message) == ("UnexpectedAdmissionError", f"Pod was rejected: {text}")

    def said() -> list[tuple[str, ...]]:
        found = node.events.objects.values()
        return [(each["involvedObject"].get("name"), each["reason"], each["type"], each["message"]) for each in found]

    about = ("refused", "UnexpectedAdmissionError", "Warning", text)
    shown = lambda: str(said())  # noqa: E731
    await node.events.until(lambda: about in said(), f"an event says {text}", deadline_s=60.0, shown=shown)
    setattr(node.plugin, method, works)
    await node.run("works", node.container("main", 8))


async def test_a_pod_of_which_one_container_cannot_have_its_ids_leaves_none_taken(node: NodeUnderTest) -> None:
    reason, message = await node.refused("refused", node.container("main", 5), node.container("side", 4))
    assert reason == "UnexpectedAdmissionError"
    assert "Requested: 4, Available: 3" in message
    await node.until_listed({})
    await node.run("works", node.container("main", 8))


async def test_a_resource_that_no_plugin_has_stops_no_pod(node: NodeUnderTest) -> None:
    container = node.container("main", 1)
    container["resources"] = {"limits": {"example.com/nobodys": "1"}}
    await node.run("a", container)
    await node.until_listed({"default/a": {"main": frozenset()}})


# What is kept, shown and given back


async def test_a_container_gets_what_the_plugin_answered_and_the_record_keeps_it(node: NodeUnderTest) -> None:
    answer = pb.ContainerAllocateResponse(envs={"CARD": "3"})
    node.plugin.grant = lambda _: answer
    uid = await node.run("a", node.container("main", 2), node.container("plain", 0))
    assert (await node.environment("a"))["CARD"] == "3"
    assert "CARD" not in await node.environment("a", "plain")
    (entry,) = node.recorded().items()
    assert entry[0] == (uid, "main")
    assert entry[1].by_numa == {"-1": sorted(entry[1].ids)}
    assert pb.ContainerAllocateResponse.FromString(entry[1].answer) == answer
    await node.until_listed({"default/a": {"main": entry[1].ids, "plain": frozenset()}})


async def test_the_record_and_the_list_say_where_an_id_is(node: NodeUnderTest) -> None:
    listing = pb.ListAndWatchResponse.FromString(devices(IDS))
    for number, device in enumerate(listing.devices[:4]):
        device.topology.nodes.append(pb.NUMANode(ID=number // 2))
    await node.plugin.publish(listing.SerializeToString())
    node.plugin.prefer = lambda _: ["id-1", "id-2", "id-7"]
    await node.plugin.register()
    uid = await node.run("a", node.container("main", 3))
    assert node.recorded()[uid, "main"].by_numa == {"0": ["id-1"], "1": ["id-2"], "-1": ["id-7"]}
    await node.until_listed({"default/a": {"main": frozenset({"id-1", "id-2", "id-7"})}})
    assert await node.listed_numa("a") == {"id-1": [0], "id-2": [1], "id-7": []}


async def test_ids_are_free_again_when_a_pod_has_ended_by_itself(node: NodeUnderTest) -> None:
    first = await node.run("first", node.container("main", 8), restartPolicy="Never")
    await node.end("first")
    await node.until_phase("first", "Succeeded")
    await node.until_listed({})
    # The record is written at the next admission.
    assert node.held(first) == frozenset(IDS)
    second = await node.run("second", node.container("main", 8))
    assert set(node.recorded()) == {(second, "main")}


@pytest.mark.parametrize("grace_s", [None, 0], ids=["as its grace says", "at once"])
async def test_ids_are_free_again_when_a_pod_was_deleted(node: NodeUnderTest, grace_s: int | None) -> None:
    await node.run("first", node.container("main", 8))
    await node.delete("first", grace_s=grace_s)
    await node.until_listed({})
    second = await node.run("second", node.container("main", 8))
    assert set(node.recorded()) == {(second, "main")}


async def test_a_pod_that_takes_the_place_of_one_that_was_deleted_at_once_runs_with_ids_of_its_own(
    node: NodeUnderTest,
) -> None:
    uid = await node.run("a", node.container("main", 4))
    for _ in range(3):
        await node.client.delete(PODS, "a", namespace="default", grace_s=0)
        uid = await node.run("a", node.container("main", 4))
    await node.until_listed({"default/a": {"main": node.held(uid)}})


async def test_a_container_that_starts_again_keeps_its_ids_without_a_question(node: NodeUnderTest) -> None:
    uid = await node.run("a", node.container("main", 2))
    held = node.held(uid)
    await node.end("a")
    await node.until_restarted("a")
    await node.until_phase("a", "Running")
    assert node.held(uid) == held
    assert node.plugin.calls.allocated == [held]


async def test_a_plugin_that_wants_it_is_called_before_each_start_of_a_container(node: NodeUnderTest) -> None:
    node.plugin.options = pb.DevicePluginOptions(pre_start_required=True)
    await node.plugin.register()
    uid = await node.run("a", node.container("main", 2), init=[node.init("init", 1)])
    await node.end("a")
    await node.until_restarted("a")
    assert node.plugin.calls.pre_started == [node.held(uid, "init"), node.held(uid), node.held(uid)]


@pytest.mark.parametrize("finalizers", [[], ["example.com/stays"]], ids=["plain", "held by a finalizer"])
async def test_a_pod_that_passes_for_a_static_one_is_deleted_and_given_nothing(
    node: NodeUnderTest, finalizers: list[str]
) -> None:
    metadata = {"name": "false", "finalizers": finalizers, "annotations": {MIRROR: "x", MACHINE_UID: "x"}}
    spec = {"nodeName": NODE, "hostNetwork": True, "containers": [node.container("main", 8)]}
    await node.client.create(PODS, {"metadata": metadata, "spec": spec}, namespace="default")

    async def left() -> JsonObject | None:
        with contextlib.suppress(NotFoundError):
            return await node.client.get(POD_OBJECTS, "false", namespace="default")
        return None

    async def is_there() -> str | None:
        found = await left()
        return None if found is None or found["metadata"].get("deletionGracePeriodSeconds") == 0 else str(found)

    try:
        await poll_until(is_there, "the kubelet deletes it, without a time to end", deadline_s=60.0)
        found = await left()
        assert (found is not None) is bool(finalizers)
        if found is not None:
            assert (phase_of(found), found["status"].get("startTime")) == ("Pending", None)
        await node.run("real", node.container("main", 8))
        assert len(node.plugin.calls.allocated) == 1
    finally:
        if finalizers:
            free = Patch(PatchKind.MERGE, {"metadata": {"finalizers": None}})
            await node.client.patch(PODS, "false", free, namespace="default")
