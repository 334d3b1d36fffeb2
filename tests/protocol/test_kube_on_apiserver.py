"""The client against the API server double: what both sides understand by binding, patching, leases and events."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import ConflictError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.election import ApiLease, LeaderElector, LeaseTimes
from gcushare.kube.errors import AlreadyExistsError, UnknownOutcomeError
from gcushare.kube.events import EventRecorder
from gcushare.kube.patches import Patch, PatchKind, Precondition
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import EVENTS, LEASES, NAMESPACES, NODES, PODS, Resource, Selector
from gcushare.wire.objects import Lease, LeaseSpec, ObjectMeta, ObjectReference, Pod
from gcushare_playground.apiserver import ApiServer, DropAfter, FailAfter, Fault
from tests.api_objects import an_object
from tests.protocol.reflector_rig import Picture
from tests.running import running

ID_KEY = "enflame.com/gcu-device-id"


@pytest.fixture
def client(server: ApiServer, client: KubeClient) -> KubeClient:
    server.registry.put(an_object("Node", "node-1"))
    return client


async def make_pod(client: KubeClient, name: str = "train") -> PodRef:
    spec = {"containers": [{"name": "main", "image": "i"}]}
    made = await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace="default")
    return PodRef(made.metadata.uid, "default", name)


async def read(client: KubeClient, pod: PodRef) -> Pod:
    return await client.read_pod(pod.namespace, pod.name, timeout_s=10.0)


async def test_a_bind_sets_the_node_and_the_record_in_one_step(client: KubeClient) -> None:
    pod = await make_pod(client)
    await client.bind_pod(pod, "node-1", {ID_KEY: "3"})
    bound = await read(client, pod)
    assert (bound.spec.node_name, bound.metadata.annotations[ID_KEY]) == ("node-1", "3")


async def test_a_second_bind_and_one_of_another_uid_change_nothing(client: KubeClient) -> None:
    pod = await make_pod(client)
    with pytest.raises(ConflictError):
        await client.bind_pod(PodRef("another-uid", "default", "train"), "node-1", {ID_KEY: "1"})
    assert not (await read(client, pod)).is_bound
    await client.bind_pod(pod, "node-1", {ID_KEY: "3"})
    with pytest.raises(ConflictError):
        await client.bind_pod(pod, "node-1", {ID_KEY: "4"})
    assert (await read(client, pod)).metadata.annotations[ID_KEY] == "3"


async def test_a_bind_of_a_pod_that_is_not_there(client: KubeClient) -> None:
    with pytest.raises(NotFoundError):
        await client.bind_pod(PodRef("uid", "default", "stranger"), "node-1", {})


@pytest.mark.parametrize("effect", [DropAfter(), FailAfter()], ids=["connection cut", "answered 504"])
async def test_a_bind_that_took_effect_without_an_answer_has_an_unknown_outcome(
    server: ApiServer, client: KubeClient, effect: DropAfter | FailAfter
) -> None:
    pod = await make_pod(client)
    server.faults.on(Fault(effect, path="/binding", count=1))
    with pytest.raises(UnknownOutcomeError):
        await client.bind_pod(pod, "node-1", {ID_KEY: "3"})
    assert (await read(client, pod)).spec.node_name == "node-1"


async def test_annotations_are_set_and_removed_for_the_right_uid_only(client: KubeClient) -> None:
    pod = await make_pod(client)
    await client.patch_pod_annotations(pod, {"a": "1", "b": "2"})
    changed = await client.patch_pod_annotations(pod, {"a": None})
    assert changed.metadata.annotations == {"b": "2"}
    with pytest.raises(ConflictError):
        await client.patch_pod_annotations(PodRef("another-uid", "default", "train"), {"b": None})
    assert (await read(client, pod)).metadata.annotations == {"b": "2"}


async def test_annotations_and_a_kubelets_reports_keep_each_other_also_while_the_pod_ends(client: KubeClient) -> None:
    pod = await make_pod(client)
    await client.bind_pod(pod, "node-1", {})

    async def report(number: int) -> None:
        patch = Patch(
            PatchKind.STRATEGIC, {"status": {"conditions": [{"type": f"example.com/{number}", "status": "True"}]}}
        )
        await client.patch(PODS, pod.name, patch, namespace=pod.namespace, subresource="status")

    for round_ in range(2):
        numbers = range(4 * round_, 4 * round_ + 4)
        annotating = (client.patch_pod_annotations(pod, {f"example.com/{number}": "1"}) for number in numbers)
        await asyncio.gather(*annotating, *map(report, numbers))
        after = await read(client, pod)
        assert after.metadata.annotations == {f"example.com/{number}": "1" for number in range(numbers.stop)}
        assert {f"example.com/{number}" for number in range(numbers.stop)} <= {
            each.type for each in after.status.conditions
        }
        assert (after.metadata.deletion_timestamp is not None) == bool(round_)
        await client.delete(PODS, pod.name, namespace=pod.namespace)


async def test_a_patch_of_the_status_changes_no_spec_and_no_owner(client: KubeClient) -> None:
    pod = await make_pod(client)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9f4c1f0a-0000-4000-8000-000000000001"}
    image = {"containers": [{"name": "main", "image": "other"}]}
    changes = {"metadata": {"ownerReferences": [owner], "labels": {"app": "x"}}, "spec": image}
    objects = Resource(PODS.prefix, PODS.plural, dict)
    before = await client.get(objects, pod.name, namespace=pod.namespace)
    patch = Patch(PatchKind.STRATEGIC, changes)
    after = await client.patch(objects, pod.name, patch, namespace=pod.namespace, subresource="status")
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], {"app": "x"})
    assert "ownerReferences" not in after["metadata"]
    taints = Patch(PatchKind.MERGE, {"metadata": {"labels": {"app": "x"}}, "spec": {"unschedulable": True}})
    node = await client.patch(
        Resource(NODES.prefix, NODES.plural, dict, namespaced=False), "node-1", taints, subresource="status"
    )
    assert node["metadata"]["labels"]["app"] == "x"
    assert "unschedulable" not in node["spec"]


async def test_node_capacity_is_set_in_addition_to_what_the_kubelet_reports_and_removed_again(
    client: KubeClient,
) -> None:
    await client.patch_node_capacity("node-1", {"cpu": 4})
    for _ in range(2):
        node = await client.patch_node_capacity("node-1", {"enflame.com/gcu-count": 8})
        assert node.status.capacity == {"cpu": "4", "enflame.com/gcu-count": "8"}
    node = await client.patch_node_capacity("node-1", {"enflame.com/gcu-count": None, "never.com/there": None})
    assert node.status.capacity == {"cpu": "4"}


async def test_a_delete_with_another_uid_deletes_nothing(client: KubeClient) -> None:
    pod = await make_pod(client)
    with pytest.raises(ConflictError):
        await client.delete(PODS, "train", namespace="default", precondition=Precondition(uid="another"), grace_s=0)
    await client.delete(PODS, "train", namespace="default", precondition=Precondition(uid=pod.uid), grace_s=0)
    with pytest.raises(NotFoundError):
        await read(client, pod)


async def test_a_name_taken_is_distinguished_from_a_change_in_between(client: KubeClient) -> None:
    with pytest.raises(AlreadyExistsError):
        await client.create(NAMESPACES, {"metadata": {"name": "default"}})


async def test_lists_page_and_select(client: KubeClient) -> None:
    pods = [await make_pod(client, f"p{number}") for number in range(7)]
    await client.bind_pod(pods[3], "node-1", {})
    assert len(await client.list_all(PODS, Selector(namespace="default"), page_size=3)) == 7
    on_node = await client.list_all(PODS, Selector(fields="spec.nodeName=node-1"))
    assert [each.metadata.name for each in on_node] == ["p3"]


async def test_a_reflector_outlives_restarts_of_the_server(server: ApiServer, client: KubeClient) -> None:
    picture = Picture()
    settings = ReflectorSettings(backoff=BackoffPolicy(0.005, 0.02), page_size=2)
    decoder = msgspec.json.Decoder(Pod)
    reflector = Reflector(
        client, PODS, picture, decode=decoder.decode, settings=settings, clock=SystemClock(), rng=random.Random(1)
    )
    async with running(reflector.run(), "reflector under test"):
        first = await make_pod(client, "first")
        await picture.shows("first")
        await server.restart()
        await make_pod(client, "second")
        await picture.shows("first", "second")
        await client.bind_pod(first, "node-1", {ID_KEY: "3"})
        await picture.until(lambda seen: seen.pods[first.uid].spec.node_name == "node-1")
        await client.delete(PODS, "second", namespace="default", grace_s=0)
        await picture.shows("first")
        assert reflector.counters["failures"] > 0


async def test_a_picture_that_catches_up_holds_what_was_written_before(client: KubeClient) -> None:
    picture = Picture()
    reflector = Reflector(client, PODS, picture, decode=msgspec.json.Decoder(Pod).decode, clock=SystemClock())
    async with running(reflector.run(), "reflector under test"):
        await reflector.synced.wait()
        for number in range(5):
            pod = await make_pod(client, f"pod-{number}")
            await client.bind_pod(pod, "node-1", {ID_KEY: "3"})
            # Versions count the writes of all collections: this one takes the newest ahead of every pod's.
            await client.patch_node_annotations("node-1", {"number": str(number)})
            async with asyncio.timeout(60):
                await reflector.catch_up()
            assert picture.pods[pod.uid].metadata.annotations[ID_KEY] == "3"
        assert reflector.counters["failures"] == 0


async def test_a_lease_is_taken_kept_and_handed_over(server: ApiServer, client: KubeClient) -> None:
    # The time between attempts also bounds the writes that give up the lease.
    times = LeaseTimes(duration_s=15, renew_deadline_s=10, retry_s=0.5)
    changes: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

    def elector(identity: str) -> LeaderElector:
        lease = ApiLease(client, "kube-system", "gcushare-extender")
        return LeaderElector(
            lease,
            identity,
            times=times,
            listener=lambda leads: changes.put_nowait((identity, leads)),
            clock=SystemClock(),
        )

    first, second = elector("a"), elector("b")
    async with asyncio.timeout(60):
        task = asyncio.create_task(first.run(), name="first")
        assert await changes.get() == ("a", True)
        other = asyncio.create_task(second.run(), name="second")
        task.cancel()
        assert [await changes.get(), await changes.get()] == [("a", False), ("b", True)]
        other.cancel()
        assert await changes.get() == ("b", False)
        await asyncio.wait([task, other])
    lease = await client.get(LEASES, "gcushare-extender", namespace="kube-system")
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("", 1)


async def test_a_lease_written_by_others_keeps_what_we_do_not_know(client: KubeClient) -> None:
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 5, "strategy": "OldestEmulationVersion"}
    metadata = {"name": "shared", "labels": {"kept": "yes"}}
    made = await client.create(LEASES, {"metadata": metadata, "spec": spec}, namespace="default")
    lease = ApiLease(client, "default", "shared")
    written = await lease.write(LeaseSpec(holder_identity="y"), made.metadata.resource_version, 5.0)
    assert written.metadata.labels == {"kept": "yes"}
    assert written.spec == msgspec.structs.replace(made.spec, holder_identity="y")
    with pytest.raises(ConflictError):
        await lease.write(LeaseSpec(holder_identity="z"), made.metadata.resource_version, 5.0)
    with pytest.raises(ConflictError):
        await lease.create(Lease(metadata=ObjectMeta(name="shared")), 5.0)


async def test_events_appear_next_to_their_object(client: KubeClient) -> None:
    pod = await make_pod(client)
    recorder = EventRecorder(client, "gcushare-test", host="node-1", clock=SystemClock())
    about = ObjectReference(api_version="v1", kind="Pod", namespace="default", name=pod.name, uid=pod.uid)
    async with running(recorder.run(), "recorder under test"):
        recorder.record(about, "NoRoom", "needs 12 in one card", warning=True)
        recorder.record(ObjectReference(kind="Node", name="node-1", uid="node-1"), "CardSick", "card 3")
        assert await recorder.drain(5)
    events = await client.list_all(EVENTS)
    seen = {(each.involved_object.kind, each.metadata.namespace, each.reason, each.count) for each in events}
    assert {("Pod", "default", "NoRoom", 1), ("Node", "default", "CardSick", 1)} <= seen
