"""Findings about the scheduler, the extender, trust and rights: each is made to happen, and nothing else is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gcushare.core.cards import BOTH_MODES
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CLAIMED_RESOURCE
from gcushare_playground.apiserver import FailBefore, Fault
from gcushare_playground.apiserver.objects import JsonObject
from tests.builders import cards
from tests.extender_objects import inventory_text, pod_document
from tests.protocol.doctor_rig import (
    EXTENDER,
    NODE,
    PLUGIN,
    SCHEDULER,
    SERVICE,
    SYSTEM,
    DoctorRig,
    config_map,
    metrics,
    policy_binding,
    program_pod,
)
from tests.unit.certificates import certificate_pem

Scenario = Callable[[DoctorRig], object]
ERROR, WARNING, INFO = "error", "warning", "info"


async def test_a_healthy_cluster_gives_no_findings(rig: DoctorRig) -> None:
    answer = await rig.examine()
    assert (answer.code, answer.document["findings"]) == (0, [])
    assert answer.document["lookedAt"] == {"nodes": 1, "plugins": 1, "extenders": 1, "schedulers": 1, "pods": 3}


def set_scheduler_flags(rig: DoctorRig, *flags: str, **spec: Any) -> None:
    def change(pod: JsonObject) -> None:
        pod["spec"]["containers"][0]["args"] = list(flags)
        pod["spec"]["containers"][0] |= spec.pop("container", {})
        pod["spec"] |= spec

    rig.change("pods", SCHEDULER, change, SYSTEM)


def scheduler_without_configuration(rig: DoctorRig) -> None:
    set_scheduler_flags(rig, "--leader-elect=true")


def configure_by_config_map(rig: DoctorRig, url: str, resource: str = "enflame.com/gcu-memory") -> None:
    """The scheduler reads a ConfigMap, as the chart's second scheduler does."""
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n  - schedulerName: gcushare-scheduler\nextenders:\n"
        f"  - urlPrefix: {url}\n    bindVerb: bind\n    managedResources:\n      - name: {resource}\n"
    )
    rig.put(config_map("second", scheduler__yaml=text))
    mounts = {"volumeMounts": [{"name": "config", "mountPath": "/etc/gcushare"}]}
    volumes = [{"name": "config", "configMap": {"name": "second"}}]
    set_scheduler_flags(rig, "--config=/etc/gcushare/scheduler.yaml", container=mounts, volumes=volumes)


def scheduler_with_another_extender_only(rig: DoctorRig) -> None:
    configure_by_config_map(rig, "http://10.1.1.1/other", "example.com/widgets")


def scheduler_calling_an_old_address(rig: DoctorRig) -> None:
    configure_by_config_map(rig, "http://10.96.99.99:32766/gcushare-scheduler")


def scheduler_that_does_not_manage_a_vendor(rig: DoctorRig) -> None:
    configure_by_config_map(rig, "http://10.96.1.37:32766/gcushare-scheduler", "enflame.com/other")


def manage_whole_cards(rig: DoctorRig) -> None:
    names = f"{ENFLAME.memory_resource}\n      - name: {ENFLAME.whole_card_resource}"
    configure_by_config_map(rig, "http://10.96.1.37:32766/gcushare-scheduler", names)


def serve_whole_cards(rig: DoctorRig) -> None:
    text = inventory_text(cards(16, 16), modes=BOTH_MODES)
    rig.change_node(lambda node: node["metadata"]["annotations"].update({ENFLAME.inventory_annotation: text}))
    rig.change_node(lambda node: node["status"]["capacity"].update({ENFLAME.whole_card_resource: "2"}))


def claims_that_no_scheduler_ignores(rig: DoctorRig) -> None:
    configure_by_config_map(rig, "http://10.96.1.37:32766/gcushare-scheduler")
    pod = pod_document("waits", None, annotations={CLAIMED_RESOURCE: ENFLAME.memory_resource})
    mark = {ENFLAME.claims.extender_resource: "4"}
    pod["spec"]["containers"][0]["resources"] = {"limits": mark, "requests": mark}
    rig.put_pod(pod, age_s=600.0, phase="Pending", conditions=[])


def whole_cards_that_no_one_is_asked_about(rig: DoctorRig) -> None:
    serve_whole_cards(rig)
    configure_by_config_map(rig, "http://10.96.1.37:32766/gcushare-scheduler")


def whole_cards_that_no_node_serves(rig: DoctorRig) -> None:
    manage_whole_cards(rig)


def extender_that_was_never_asked(rig: DoctorRig) -> None:
    rig.extender.pages["/metrics"] = metrics(filters=0)
    rig.put_asking("waits", 4)


def managed_cluster(rig: DoctorRig) -> None:
    rig.delete("pods", SCHEDULER, SYSTEM)
    rig.extender.pages["/metrics"] = metrics(filters=0)


def scheduler_out_of_sight(rig: DoctorRig) -> None:
    rig.change("nodes", NODE, lambda node: node["metadata"]["labels"].update({"node-role.kubernetes.io/master": ""}))
    rig.delete("pods", SCHEDULER, SYSTEM)
    rig.extender.pages["/metrics"] = metrics(filters=0)


def scheduler_with_an_unseen_configuration(rig: DoctorRig) -> None:
    set_scheduler_flags(rig, "--config=/etc/kubernetes/own.yaml")
    rig.extender.pages["/metrics"] = metrics(filters=0)


def config_manager_that_failed(rig: DoctorRig) -> None:
    report = '{"state": "failed", "reason": "rolled back: unhealthy for 180s"}'
    rig.put(config_map("gcushare-config-manager", mode="apply", node__master=report))


def no_extender_at_all(rig: DoctorRig) -> None:
    rig.delete("pods", EXTENDER, SYSTEM)
    rig.delete("services", SERVICE, SYSTEM)


def extender_that_does_not_answer(rig: DoctorRig) -> None:
    rig.extender.pages.clear()


def service_without_ready_replicas(rig: DoctorRig) -> None:
    rig.delete("endpoints", SERVICE, SYSTEM)


def no_one_leads(rig: DoctorRig) -> None:
    rig.extender.pages["/metrics"] = metrics(leader=0)


def two_lead(rig: DoctorRig) -> None:
    rig.put_extender("gcushare-scheduler-extender-2", rig.extender.port)


def plugin_of_another_release(rig: DoctorRig) -> None:
    rig.set_status(version="0.9.4")


def policy_removed(rig: DoctorRig) -> None:
    rig.delete("validatingadmissionpolicies.admissionregistration.k8s.io", "records")


def policy_that_only_warns(rig: DoctorRig) -> None:
    kind = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
    rig.delete(kind, "records")
    rig.put(policy_binding("Warn"))


def certificate_that_ends_soon(rig: DoctorRig) -> None:
    rig.mount_certificate(certificate_pem(days=10))


def certificate_that_ended(rig: DoctorRig) -> None:
    rig.mount_certificate(certificate_pem(days=-1))


def certificate_of_rubbish(rig: DoctorRig) -> None:
    rig.mount_certificate(b"rubbish")


def api_server_that_cannot_list_pods(rig: DoctorRig) -> None:
    rig.api.faults.on(Fault(FailBefore(500, "InternalError", "etcd is away"), path="^/api/v1/pods"))


@pytest.mark.parametrize(
    ("scenario", "severity", "kind", "subject", "number"),
    [
        (scheduler_without_configuration, ERROR, "scheduler-not-calling", SCHEDULER, "without --config"),
        (scheduler_with_another_extender_only, ERROR, "scheduler-not-calling", SCHEDULER, "'http://10.1.1.1/other'"),
        (scheduler_calling_an_old_address, ERROR, "scheduler-other-address", SCHEDULER, "10.96.99.99:32766"),
        (scheduler_that_does_not_manage_a_vendor, ERROR, "scheduler-resource-unmanaged", SCHEDULER, "gcu-memory"),
        (claims_that_no_scheduler_ignores, ERROR, "claims-unmanaged", "kube-scheduler", "1 pod waits with claims that"),
        (whole_cards_that_no_one_is_asked_about, WARNING, "whole-cards-unmanaged", SCHEDULER, "n1 serve whole cards"),
        (whole_cards_that_no_node_serves, WARNING, "whole-cards-unserved", SCHEDULER, "no plugin serves"),
        (extender_that_was_never_asked, ERROR, "scheduler-not-calling", "kube-scheduler", "1 pod waits"),
        (managed_cluster, WARNING, "control-plane-out-of-reach", "kube-scheduler", "no node of 1 is labelled"),
        (scheduler_out_of_sight, INFO, "scheduler-unseen", "kube-scheduler", "no call yet"),
        (scheduler_with_an_unseen_configuration, INFO, "scheduler-unseen", SCHEDULER, "own.yaml"),
        (config_manager_that_failed, ERROR, "config-manager-failed", "node master", "unhealthy for 180s"),
        (no_extender_at_all, ERROR, "extender-missing", SERVICE, "no such Service"),
        (no_one_leads, ERROR, "no-leader", "scheduler extender", f"held by {EXTENDER}"),
        (two_lead, ERROR, "two-leaders", "scheduler extender", "2 replicas"),
        (service_without_ready_replicas, ERROR, "extender-unreachable", SERVICE, "no endpoints"),
        (plugin_of_another_release, WARNING, "versions-differ", "plugin of node n1", "0.9.4"),
        (policy_removed, WARNING, "policy-missing", "vendor enflame", "there is no ValidatingAdmissionPolicy"),
        (policy_that_only_warns, WARNING, "policy-missing", "vendor enflame", "no binding that denies"),
        (certificate_that_ends_soon, WARNING, "certificate-expires", "extender-tls, tls.crt", "in 10 d"),
        (certificate_that_ended, ERROR, "certificate-expires", "extender-tls, tls.crt", "24 h ago"),
        (certificate_of_rubbish, WARNING, "certificate-unreadable", "extender-tls, tls.crt", "no PEM certificate"),
        (api_server_that_cannot_list_pods, WARNING, "not-readable", "API server", "etcd is away"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_each_trouble_is_found_and_nothing_else(
    rig: DoctorRig, scenario: Scenario, severity: str, kind: str, subject: str, number: str
) -> None:
    scenario(rig)
    answer = await rig.examine()
    answer.assert_only(severity, kind, number)
    assert subject in answer.finding(kind)["subject"]
    assert answer.code == {ERROR: 4, WARNING: 3, INFO: 0}[severity]


async def test_an_extender_that_does_not_answer_is_reported_of_its_pod_and_its_service(rig: DoctorRig) -> None:
    extender_that_does_not_answer(rig)
    answer = await rig.examine()
    assert answer.kinds == {(ERROR, "extender-unreachable")}
    assert {each["subject"] for each in answer.document["findings"]} == {
        f"extender {SYSTEM}/{EXTENDER}",
        f"Service {SYSTEM}/{SERVICE}",
    }


async def test_a_configuration_on_this_machine_is_compared_with_the_service(rig: DoctorRig, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    entry = (
        "extenders: [{urlPrefix: 'http://%s/gcushare-scheduler', managedResources: [{name: enflame.com/gcu-memory}]}]"
    )
    config.write_text(entry % "10.96.1.37:32766")
    assert (await rig.examine("--scheduler-config", str(config))).kinds == set()
    config.write_text(entry % "10.96.1.38:32766")
    assert (await rig.examine("--scheduler-config", str(config))).kinds == {(ERROR, "scheduler-other-address")}
    config.write_text("extenders: [")
    assert (await rig.examine("--scheduler-config", str(config))).kinds == {(ERROR, "scheduler-not-calling")}


@pytest.mark.parametrize(
    "theirs",
    [
        "urlPrefix: 'http://vgpu-scheduler.kube-system:9443/gcushare-scheduler-of-theirs', filterVerb: filter",
        "urlPrefix: 'unix:///run/theirs.sock', ignorable: true",
    ],
)
async def test_another_products_extender_that_manages_our_resource_is_not_taken_for_ours(
    rig: DoctorRig, tmp_path: Path, theirs: str
) -> None:
    config = tmp_path / "scheduler.yaml"
    managed = "managedResources: [{name: nvidia.com/gpumem}, {name: enflame.com/gcu-memory}]"
    ours = "urlPrefix: 'http://10.96.1.37:32766/gcushare-scheduler', managedResources: [{name: enflame.com/gcu-memory}]"
    config.write_text(f"extenders: [{{{theirs}, {managed}}}, {{{ours}}}]")
    assert (await rig.examine("--scheduler-config", str(config))).kinds == set()
    config.write_text(f"extenders: [{{{theirs}, {managed}}}]")
    assert (await rig.examine("--scheduler-config", str(config))).kinds == {(ERROR, "scheduler-not-calling")}


async def test_no_policy_is_expected_of_a_kubernetes_that_has_none(tmp_path: Path) -> None:
    async with DoctorRig(tmp_path, version="v1.29.4") as rig:
        policy_removed(rig)
        assert (await rig.examine()).kinds == set()


async def test_the_second_scheduler_makes_the_first_ones_ignorance_right(rig: DoctorRig) -> None:
    configure_by_config_map(rig, f"http://{SERVICE}.{SYSTEM}.svc:32766/gcushare-scheduler")
    rig.put_pod(program_pod("kube-scheduler-other", "kube-scheduler", 10259, "--leader-elect", node="master"))
    pod = pod_document("full", 4)
    pod["spec"]["schedulerName"] = "gcushare-scheduler"
    tried = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    rig.put_pod(pod, age_s=600, phase="Pending", conditions=tried)
    assert (await rig.examine()).kinds == set(), "Enflame's gcushare has a scheduler of that name too"
    rig.put_pod(pod_document("nameless", 4), age_s=600, phase="Pending", conditions=tried)
    found = await rig.examine()
    found.assert_only(WARNING, "scheduler-not-calling", "1 pod asks it for cards, and it calls no extender")
    assert "schedulerName: gcushare-scheduler; a policy" in found.finding("scheduler-not-calling")["remedy"]
    of_its_host = "--config=/etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml"
    rig.put_pod(program_pod("kube-scheduler-third", "kube-scheduler", 10259, of_its_host, node="third"))
    assert (await rig.examine()).kinds == set(), "one that reads a file of the config manager may call it too"
    nothing = {"scheduler.yaml": "profiles: []\nextenders: []\n"}
    rig.change("configmaps", "second", lambda found: found.update(data=nothing), SYSTEM)
    assert (ERROR, "other-scheduler") in (await rig.examine()).kinds


@pytest.mark.parametrize("level", ["restricted", "privileged"])
async def test_a_namespace_that_refuses_our_programs_is_found(rig: DoctorRig, level: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    rig.change("namespaces", SYSTEM, lambda found: found["metadata"].update(labels=labels))
    found = await rig.examine()
    if level == "privileged":
        assert found.kinds == set()
        return
    found.assert_only(ERROR, "namespace-refuses-programs", f"enforces the Pod Security level {level!r}")
    rig.delete("pods", PLUGIN, SYSTEM)
    assert (ERROR, "namespace-refuses-programs") in (await rig.examine()).kinds, "also where they are refused already"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(("--extender-service", "extender"), "NAMESPACE/NAME", id="half a Service"),
        pytest.param(("--scheduler-config", "/nowhere/config.yaml"), "/nowhere/config.yaml", id="no such file"),
        pytest.param(("--nodes", "n1"), "--node", id="a flag misspelt"),
    ],
)
async def test_wrong_settings_are_refused_by_name(rig: DoctorRig, argv: tuple[str, ...], words: str) -> None:
    answer = await rig.run("doctor", *argv)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
