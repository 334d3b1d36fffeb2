from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver.durations import human, since
from gcushare_playground.apiserver.objects import JsonObject, rfc3339
from gcushare_playground.apiserver.resources import BY_NAME, RESOURCES, is_stored
from gcushare_playground.apiserver.tables import table
from tests.unit.apiserver_objects import deployment, node, pod

NOW = 1_800_000_000.0


def _cells(name: str, obj: JsonObject) -> dict[str, Any]:
    obj["metadata"].setdefault("creationTimestamp", rfc3339(NOW - 60))
    document = table(BY_NAME[name], [obj], {}, "None", NOW)
    titles = [column["name"] for column in document["columnDefinitions"]]
    return dict(zip(titles, document["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (3 * 3600, "3h"), (3 * 3600 + 120, "3h2m"),
        (8 * 3600 + 60, "8h"), (47 * 3600, "47h"), (2 * 86400, "2d"), (2 * 86400 + 3600, "2d1h"), (8 * 86400, "8d"),
        (400 * 86400, "400d"), (800 * 86400, "2y70d"), (9 * 365 * 86400, "9y"), (-1, "0s"), (-60, "<invalid>"),
    ],
)  # fmt: skip
def test_an_age_is_as_precise_as_its_size_deserves(seconds: int, text: str) -> None:
    assert human(seconds) == text


def test_an_age_without_a_time_is_unknown() -> None:
    assert since(None, NOW) == since("yesterday", NOW) == "<unknown>"


def _running(*, ready: bool = True, **state: Any) -> JsonObject:
    return {"name": "main", "ready": ready, "restartCount": 0, "state": state or {"running": {}}}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param({"phase": "Pending"}, ("0/1", "Pending"), id="pending"),
        pytest.param({"phase": "Running", "containerStatuses": [_running()]}, ("1/1", "Running"), id="running"),
        pytest.param(
            {"phase": "Running", "containerStatuses": [_running(ready=False)]}, ("0/1", "Running"), id="unready"
        ),
        pytest.param(
            {"phase": "Pending", "containerStatuses": [_running(ready=False, waiting={"reason": "ContainerCreating"})]},
            ("0/1", "ContainerCreating"),
            id="creating",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "UnexpectedAdmissionError"}, ("0/1", "UnexpectedAdmissionError"), id="refused"
        ),
        pytest.param(
            {
                "phase": "Succeeded",
                "containerStatuses": [_running(ready=False, terminated={"reason": "Completed", "exitCode": 0})],
            },
            ("0/1", "Completed"),
            id="completed",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [_running(ready=False, terminated={"exitCode": 3})]},
            ("0/1", "ExitCode:3"),
            id="exit code",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]},
            ("0/1", "Init:0/1"),
            id="initialising",
        ),
    ],
)
def test_a_pods_row_says_what_people_know(status: JsonObject, words: tuple[str, str]) -> None:
    initial = [{"name": "i", "image": "i"}] if "initContainerStatuses" in status else []
    cells = _cells("pods", pod(initContainers=initial) | {"status": status})
    assert (cells["Ready"], cells["Status"]) == words
    assert cells["Age"] == "60s"


def test_a_pod_that_leaves_is_terminating_and_its_restarts_are_told() -> None:
    status = _running() | {"restartCount": 2, "lastState": {"terminated": {"finishedAt": rfc3339(NOW - 30)}}}
    obj = pod(nodeName="n1") | {"status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [status]}}
    obj["metadata"]["deletionTimestamp"] = rfc3339(NOW)
    cells = _cells("pods", obj)
    assert (cells["Status"], cells["Restarts"], cells["Node"], cells["IP"]) == (
        "Terminating",
        "2 (30s ago)",
        "n1",
        "10.0.0.1",
    )


def test_a_nodes_row_shows_readiness_roles_and_cordon() -> None:
    obj = node("n1", labels={"node-role.kubernetes.io/worker": ""}, conditions=[{"type": "Ready", "status": "True"}])
    obj["spec"] = {"unschedulable": True}
    cells = _cells("nodes", obj)
    assert (cells["Status"], cells["Roles"], cells["Internal-IP"]) == ("Ready,SchedulingDisabled", "worker", "<none>")


def test_workload_rows_count_replicas() -> None:
    obj = deployment("web", 3) | {"status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}}
    cells = _cells("deployments.apps", obj)
    assert (cells["Ready"], cells["Up-to-date"], cells["Available"]) == ("2/3", 3, 2)


def test_events_show_what_they_are_about() -> None:
    event = {
        "metadata": {"name": "e"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available ",
        "involvedObject": {"kind": "Pod", "name": "p"},
        "lastTimestamp": rfc3339(NOW - 5),
    }
    cells = _cells("events", event)
    assert (cells["Last Seen"], cells["Object"], cells["Message"]) == ("5s", "pod/p", "0/1 nodes are available")


@pytest.mark.parametrize("resource", [r for r in RESOURCES if is_stored(r)], ids=lambda r: r.qualified)
def test_every_kind_has_a_row_even_for_an_object_with_nothing_but_a_name(resource: Any) -> None:
    document = table(resource, [{"metadata": {"name": "bare"}}], {}, "Metadata", NOW)
    (row,) = document["rows"]
    assert len(row["cells"]) == len(document["columnDefinitions"])
    assert "bare" in row["cells"] or resource.plural == "events"
    assert row["object"]["kind"] == "PartialObjectMetadata"
