"""The kubelet double's admission: order, choice of ids, errors in the kubelet's words, and what containers see."""

from __future__ import annotations

import grpc
import pytest
from aiohttp import ClientSession

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.kubelet import FINISH_ANNOTATION, RUN_SECONDS_ANNOTATION, DeviceView, MountView, shuffled
from tests.protocol.kubelet_rig import NODE, RESOURCE, Rig, container, pod, unit_ids
from tests.protocol.reference_plugin import CallFailure, devices


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


async def test_a_running_pod_has_a_status_and_the_granted_environment() -> None:
    async with Rig() as rig:
        uid = await rig.run(pod("a", container("main", 4)))

        status = rig.api.pod("a")["status"]
        ready = {item["type"]: item["status"] for item in status["conditions"]}
        assert (ready["Ready"], ready["ContainersReady"], ready["Initialized"]) == ("True", "True", "True")
        assert status["podIP"]
        assert status["containerStatuses"][0]["ready"] is True
        assert "running" in status["containerStatuses"][0]["state"]
        view = rig.kubelet.container_view(uid, "main")
        assert view is not None
        assert view.environment == {"GRANTED": "000,001,002,003"}


async def test_a_pod_of_the_hosts_network_has_the_hosts_address() -> None:
    async with Rig() as rig:
        on_host = pod("on-host", container("main", None))
        on_host["spec"]["hostNetwork"] = True
        await rig.run(on_host)
        await rig.run(pod("own", container("main", None)))
        of_host, of_own = (rig.api.pod(name)["status"] for name in ("on-host", "own"))
        assert of_host["podIP"] == of_host["hostIP"]
        assert of_own["podIP"] != of_own["hostIP"]


async def test_pods_that_ask_for_nothing_run_without_a_call() -> None:
    async with Rig() as rig:
        await rig.run(pod("plain", container("main", None)))

        assert rig.plugin.calls.preferred == []
        assert rig.plugin.calls.allocated == []


async def test_a_batch_is_admitted_in_an_order_that_is_not_the_binding_order_and_repeats_with_its_seed() -> None:
    orders = []
    for _ in range(2):
        async with Rig(units=128, order=shuffled(7), batch_window_s=0.02) as rig:
            orders.append(await admitted_order(rig, 12))

    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(1, 13))
    assert orders[0] != list(range(1, 13))


async def test_a_chosen_order_is_followed() -> None:
    async with Rig(units=64, order=lambda pods: sorted(pods, key=lambda item: item.name, reverse=True)) as rig:
        assert await admitted_order(rig, 6) == [6, 5, 4, 3, 2, 1]


async def test_one_call_per_container_with_all_free_ids() -> None:
    async with Rig(units=8) as rig:
        await rig.run(pod("a", container("one", 2), container("two", 3)))

        first, second = rig.plugin.calls.preferred
        assert (first.available, first.must_include, first.size) == (frozenset(unit_ids(8)), frozenset(), 2)
        assert (second.available, second.size) == (frozenset(unit_ids(8)[2:]), 3)
        assert rig.plugin.calls.allocated == [frozenset(unit_ids(8)[:2]), frozenset(unit_ids(8)[2:5])]


async def test_a_preferred_answer_is_taken_exactly() -> None:
    async with Rig() as rig:
        rig.plugin.prefer = lambda request: ["00f", "003", "007"]
        uid = await rig.run(pod("a", container("main", 3)))

        assert rig.ids(uid) == {"00f", "003", "007"}


async def test_ids_that_are_not_free_are_replaced_in_a_preferred_answer() -> None:
    async with Rig(units=4) as rig:
        rig.plugin.prefer = lambda request: ["000", "001"]
        first = await rig.run(pod("a", container("main", 2)))
        rig.plugin.prefer = lambda request: ["000", "003", "nonsense"]
        second = await rig.run(pod("b", container("main", 2)))

        assert rig.ids(first) == {"000", "001"}
        assert rig.ids(second) == {"002", "003"}


async def test_without_the_option_no_preference_is_asked() -> None:
    async with Rig(register=False) as rig:
        rig.plugin.options = pb.DevicePluginOptions()
        await rig.register()
        uid = await rig.run(pod("a", container("main", 3)))

        assert rig.plugin.calls.preferred == []
        assert len(rig.ids(uid)) == 3


async def test_the_preferred_answer_can_be_ignored() -> None:
    async with Rig(units=8) as rig:
        rig.kubelet.faults.ignore_preferred = True
        uid = await rig.run(pod("a", container("main", 4)))

        assert len(rig.plugin.calls.preferred) == 1
        assert rig.ids(uid) == set(unit_ids(8)[4:])


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


async def test_too_few_free_units_fail_the_pod_without_a_call() -> None:
    async with Rig(units=8) as rig:
        await rig.run(pod("a", container("main", 6)))
        calls = len(rig.plugin.calls.preferred)

        assert await rig.fail(pod("b", container("main", 3))) == (
            "UnexpectedAdmissionError",
            f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
            "Requested: 3, Available: 2, which is unexpected",
        )
        assert len(rig.plugin.calls.preferred) == calls


async def test_unhealthy_units_are_not_given_away() -> None:
    async with Rig(units=8) as rig:
        await rig.plugin.publish(devices(unit_ids(8), sick=unit_ids(8)[:6]))
        await rig.wait_for_units(8, 2)

        _, message = await rig.fail(pod("a", container("main", 3)))
        assert "Requested: 3, Available: 2" in message
        uid = await rig.run(pod("b", container("main", 2)))
        assert rig.ids(uid) == set(unit_ids(8)[6:])


async def test_a_failed_pods_earlier_containers_give_their_units_back() -> None:
    async with Rig(units=8) as rig:
        await rig.fail(pod("a", container("one", 5), container("two", 5)))
        uid = await rig.run(pod("b", container("main", 8)))

        assert len(rig.ids(uid)) == 8


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


async def test_a_container_that_fits_the_init_containers_units_asks_for_no_preference() -> None:
    async with Rig(units=8) as rig:
        uid = await rig.run(pod("a", container("main", 3), init=[container("init", 8)]))

        assert rig.ids(uid, "main") < rig.ids(uid, "init")
        assert len(rig.plugin.calls.preferred) == 1
        assert len(rig.plugin.calls.allocated) == 2


async def test_a_sidecar_keeps_its_units() -> None:
    async with Rig(units=8) as rig:
        sidecar = container("proxy", 3, restartPolicy="Always")
        uid = await rig.run(pod("a", container("main", 4), init=[sidecar]))

        assert not rig.ids(uid, "proxy") & rig.ids(uid, "main")
        assert rig.plugin.calls.preferred[1].must_include == frozenset()


async def test_a_pod_beyond_the_nodes_cpus_is_out_of_cpu() -> None:
    async with Rig(machine={"cpu": "2", "memory": "4Gi", "pods": "10"}) as rig:
        greedy = container("main", None)
        greedy["resources"] = {"requests": {"cpu": "1500m"}}
        await rig.run(pod("a", greedy))

        assert await rig.fail(pod("b", greedy)) == (
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000",
        )


async def test_an_unknown_extended_resource_is_not_the_kubelets_business() -> None:
    async with Rig() as rig:
        other = container("main", None)
        other["resources"] = {"limits": {"example.com/widget": "3"}}
        await rig.run(pod("a", other))


async def test_a_deleted_pod_is_removed_and_its_units_are_free() -> None:
    async with Rig(units=4) as rig:
        uid = await rig.run(pod("a", container("main", 4)))
        rig.api.request_deletion("a")
        await rig.api.wait_for_pod("a", None)

        assert rig.kubelet.container_view(uid, "main") is None
        await rig.run(pod("a", container("main", 4)))


async def test_a_deletion_is_carried_out_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="gcushare_playground.kubelet")
    async with Rig() as rig:
        await rig.run(pod("a", container("main", 4)))
        rig.api.request_deletion("a")
        await rig.api.wait_for_pod("a", None)
        await rig.run(pod("b", container("main", 4)))

    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if line.startswith("pod terminated")]) == 1
    assert not [line for line in lines if line.startswith("write given up")]


async def test_a_terminating_pod_keeps_its_units() -> None:
    async with Rig(units=4, termination_s=30.0) as rig:
        await rig.run(pod("a", container("main", 4)))
        rig.api.request_deletion("a")

        _, message = await rig.fail(pod("b", container("main", 1)))
        assert "Requested: 1, Available: 0" in message


async def test_a_pod_whose_object_vanishes_is_terminated() -> None:
    async with Rig(units=4) as rig:
        uid = await rig.run(pod("a", container("main", 4)))
        rig.api.drop_pod("a")
        await rig.run(pod("plain", container("main", None)))
        await rig.run(pod("a", container("main", 4)))

        assert rig.kubelet.container_view(uid, "main") is None


async def test_a_finished_pod_frees_its_units() -> None:
    async with Rig(units=4) as rig:
        uid = await rig.run(pod("job", container("main", 4)))
        await rig.kubelet.finish(uid, "Succeeded")

        status = rig.api.pod("job")["status"]
        assert status["phase"] == "Succeeded"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert "GRANTED=" in (rig.kubelet.logs("default", "job", "main") or "")
        await rig.run(pod("next", container("main", 4)))


async def test_annotations_finish_pods() -> None:
    async with Rig() as rig:
        await rig.bind(pod("short", container("main", 1), annotations={RUN_SECONDS_ANNOTATION: "0.01"}))
        await rig.api.wait_for_pod("short", "Succeeded")
        await rig.run(pod("long", container("main", 1)))
        rig.api.annotate_pod("long", {FINISH_ANNOTATION: "Failed"})
        await rig.api.wait_for_pod("long", "Failed")
        await rig.run(pod("odd", container("main", 1), annotations={RUN_SECONDS_ANNOTATION: "soon"}))


async def test_a_container_restart_reuses_the_stored_answer_and_calls_nothing() -> None:
    async with Rig() as rig:
        uid = await rig.run(pod("a", container("main", 4)))
        before = rig.kubelet.container_view(uid, "main")
        calls = len(rig.plugin.calls.allocated), len(rig.plugin.calls.preferred)
        await rig.kubelet.restart_container(uid, "main")

        after = rig.kubelet.container_view(uid, "main")
        assert before is not None
        assert after is not None
        assert after.restarts == 1
        assert after.environment == before.environment
        assert (len(rig.plugin.calls.allocated), len(rig.plugin.calls.preferred)) == calls
        assert rig.api.pod("a")["status"]["containerStatuses"][0]["restartCount"] == 1


async def test_pre_start_is_called_before_every_start_where_the_plugin_asked_for_it() -> None:
    async with Rig(register=False) as rig:
        rig.plugin.options = pb.DevicePluginOptions(pre_start_required=True)
        await rig.register()
        uid = await rig.run(pod("a", container("main", 2)))
        await rig.kubelet.restart_container(uid, "main")

        assert rig.plugin.calls.pre_started == [rig.ids(uid), rig.ids(uid)]


async def test_a_container_sees_what_it_was_given_and_its_own_environment_wins() -> None:
    async with Rig() as rig:
        rig.plugin.grant = lambda ids: pb.ContainerAllocateResponse(
            envs={"ENFLAME_VISIBLE_DEVICES": "3", "LIMIT": "plugin"},
            mounts=[pb.Mount(container_path="/opt/lib", host_path="/usr/lib/gcu", read_only=True)],
            devices=[pb.DeviceSpec(container_path="/dev/extra", host_path="/dev/extra0", permissions="rwm")],
            annotations={"cdi.k8s.io/x": "y"},
            cdi_devices=[pb.CDIDevice(name="enflame.com/gcu=3")],
        )
        own = container("main", 2, env=[{"name": "LIMIT", "value": "pod"}, _field("WHERE", "spec.nodeName")])
        uid = await rig.run(pod("a", own))

        view = rig.kubelet.container_view(uid, "main")
        assert view is not None
        assert view.environment == {"ENFLAME_VISIBLE_DEVICES": "3", "LIMIT": "pod", "WHERE": NODE}
        assert view.mounts == [MountView("/opt/lib", "/usr/lib/gcu", True)]
        assert view.devices == [
            DeviceView("/dev/extra", "/dev/extra0", "rwm"),
            DeviceView("/dev/gcu3", "/dev/gcu3", "rw"),
            DeviceView("/dev/gcuctl", "/dev/gcuctl", "rw"),
        ]
        assert view.annotations == {"cdi.k8s.io/x": "y"}
        assert view.cdi_devices == ["enflame.com/gcu=3"]


async def test_logs_over_http_show_environment_and_devices() -> None:
    async with Rig() as rig:
        rig.plugin.grant = lambda ids: pb.ContainerAllocateResponse(envs={"ENFLAME_VISIBLE_DEVICES": "0"})
        await rig.run(pod("a", container("main", 2)))
        port = rig.api.node()["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        base = f"http://127.0.0.1:{port}/containerLogs/default/a"
        async with ClientSession() as session:
            async with session.get(f"{base}/main") as response:
                assert response.status == 200
                lines = (await response.text()).splitlines()
            async with session.get(f"{base}/main", params={"tailLines": "1"}) as response:
                tail = (await response.text()).splitlines()
            async with session.get(f"{base}/other") as response:
                missing = response.status

        assert "ENFLAME_VISIBLE_DEVICES=0" in lines
        assert "/dev/gcu0 rw" in lines
        assert tail == lines[-1:]
        assert missing == 404


async def test_pods_wait_while_the_api_server_is_away_and_run_afterwards() -> None:
    async with Rig() as rig:
        await rig.api.server.stop()
        await rig.bind(pod("a", container("main", 4)))
        assert rig.plugin.calls.allocated == []
        await rig.api.server.start()
        await rig.api.wait_for_pod("a", "Running")


async def test_a_watch_that_is_too_old_is_replaced_by_a_list() -> None:
    async with Rig() as rig:
        uid = await rig.run(pod("a", container("main", 4)))
        await rig.api.server.stop()
        rig.api.drop_pod("a")
        await rig.bind(pod("b", container("main", 4)))
        rig.api.server.store.forget_history()
        await rig.api.server.start()
        await rig.api.wait_for_pod("b", "Running")

        assert rig.kubelet.container_view(uid, "main") is None


def _field(name: str, path: str) -> dict[str, object]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
