"""Pods that choose their visible cards themselves: which are named, and that each is named once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.device_plugin.reporting.own_devices import OwnDevicesReport
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, PodWithClaims
from tests.unit.node_agent_rig import Heard

FIELD = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['cards']"}}}


def container(
    name: str, vendor: Vendor, units: int = 0, env: dict[str, Any] | None = None, **more: str
) -> dict[str, Any]:
    variables = [{"name": "PATH", "value": "/bin"}]
    variables += [] if env is None else [{"name": vendor.environment.visible, **env}]
    limits = {vendor.memory_resource: str(units)} if units else {}
    return {"name": name, "resources": {"limits": limits}, "env": variables, **more}


def a_pod(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), phase: str = "Pending", **more: Any
) -> PodWithClaims:
    spec = {"nodeName": "n", "containers": containers, "initContainers": init, **more.pop("spec", {})}
    metadata = {"name": "a", "namespace": "d", "uid": "uid-a", **more}
    return POD_WITH_CLAIMS.read(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": phase}}))


def heard(
    pod: PodWithClaims, vendor: Vendor = ENFLAME, mode: GrantMode | None = GrantMode.MEMORY
) -> list[tuple[str, str, str]]:
    heard = Heard()
    report = OwnDevicesReport(vendor, mode, heard)
    for _ in range(2):
        report.pod_applied(pod)
    return heard.pods


@pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
@pytest.mark.parametrize(
    ("env", "text"), [({"value": "all"}, "='all'"), ({}, "=''"), (FIELD, " from elsewhere (valueFrom)")]
)
def test_a_container_with_memory_is_named_whatever_the_value(vendor: Vendor, env: dict[str, Any], text: str) -> None:
    (found,) = heard(a_pod(container("main", vendor, 4, env)), vendor)
    assert found[:2] == ("a", "OwnVisibleDevices")
    assert found[2].startswith(f"container 'main' sets {vendor.environment.visible}{text}: it sees what that names")


@pytest.mark.parametrize("more", [{}, {"restartPolicy": "Always"}], ids=["init", "sidecar"])
def test_every_container_of_the_pod_counts(more: dict[str, str]) -> None:
    init = (container("before", ENFLAME, 0, {"value": "1"}, **more),)
    ((_, _, text),) = heard(a_pod(container("main", ENFLAME, 4), container("second", ENFLAME, 0, FIELD), init=init))
    assert "container 'before' sets ENFLAME_VISIBLE_DEVICES='1'; container 'second' sets" in text


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(container("main", ENFLAME, 4)), id="not set"),
        pytest.param(
            a_pod(container("main", ENFLAME, 4), container("b", ENFLAME, 0, {"value": "none"})), id="sees none"
        ),
        pytest.param(a_pod(container("main", ENFLAME, 4, {"value": "all"}), phase="Failed"), id="finished"),
        pytest.param(a_pod(container("main", ALIYUN, 4, {"value": "all"})), id="another vendor's"),
    ],
)
def test_no_other_pod_is_named(pod: PodWithClaims) -> None:
    assert heard(pod) == []


def test_whole_cards_count_where_the_plugin_serves_them() -> None:
    whole = container("main", ENFLAME, 0, {"value": "all"})
    whole["resources"]["limits"] = {ENFLAME.whole_card_resource: "1"}
    assert [len(heard(a_pod(whole), mode=mode)) for mode in GrantMode] == [0, 1, 1]


def test_a_pod_of_the_same_uid_is_named_again_only_once_it_was_gone() -> None:
    seen, pod = Heard(), a_pod(container("main", ENFLAME, 4, {"value": "all"}))
    report = OwnDevicesReport(ENFLAME, GrantMode.MEMORY, seen)
    report.pod_applied(pod)
    report.pods_retained(frozenset({"uid-a"}))
    report.pod_applied(pod)
    assert len(seen.pods) == 1
    report.pod_deleted(pod)
    report.pod_applied(pod)
    assert len(seen.pods) == 2


@pytest.mark.parametrize("units", [4, 0], ids=["with cards", "without"])
def test_a_container_that_is_added_to_debug_a_pod_is_named_when_it_comes(units: int) -> None:
    seen, main = Heard(), container("main", ENFLAME, units)
    report = OwnDevicesReport(ENFLAME, GrantMode.MEMORY, seen)
    report.pod_applied(a_pod(main))
    assert seen.pods == []
    for _ in range(2):
        report.pod_applied(
            a_pod(main, spec={"ephemeralContainers": [container("debugger", ENFLAME, 0, {"value": "all"})]})
        )
    ((_, _, text),) = seen.pods
    assert text.startswith("container 'debugger' sets ENFLAME_VISIBLE_DEVICES='all'")


@pytest.mark.parametrize("vendor", [ENFLAME, ALIYUN], ids=lambda vendor: vendor.name)
@pytest.mark.parametrize("mode", [*GrantMode, None])
@pytest.mark.parametrize("env", [{"value": "all"}, {"value": "GPU-8f4e"}, FIELD])
def test_a_pod_that_asks_for_nothing_and_sees_cards_is_named(
    vendor: Vendor, mode: GrantMode | None, env: dict[str, Any]
) -> None:
    ((_, reason, text),) = heard(a_pod(container("main", vendor, 0, env)), vendor, mode)
    assert reason == "OwnVisibleDevices"
    assert "the pod asks for no card: it sees those of other pods" in text


FREE = container("main", ALIYUN, 0, {"value": "all"})


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(container("main", ALIYUN, 0, {"value": "void"})), id="sees none"),
        pytest.param(a_pod(container("main", ALIYUN, 0, {"value": ""})), id="an empty value"),
        pytest.param(a_pod(container("main", ENFLAME, 0, {"value": "all"})), id="another vendor's"),
        pytest.param(a_pod(FREE, namespace="kube-system"), id="of the system"),
        pytest.param(a_pod(FREE, namespace="gpu-operator"), id="of the vendor's tools"),
        pytest.param(a_pod(FREE, labels={"gcushare.io/vendor": "aliyun"}), id="ours"),
        pytest.param(a_pod(FREE, spec={"resourceClaims": [{"name": "any"}]}), id="with a claim"),
        pytest.param(
            a_pod(FREE, {"name": "b", "resources": {"limits": {"nvidia.com/gpu": "1"}}}), id="with another's whole card"
        ),
    ],
)
def test_a_pod_that_may_see_cards_is_not_named(pod: PodWithClaims) -> None:
    assert heard(pod, ALIYUN) == []
