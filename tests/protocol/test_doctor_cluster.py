"""Findings about the scheduler, the extender, trust and rights: each is made to happen, and nothing else is found."""

from __future__ import annotations

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
from tests.protocol import doctor_troubles as when
from tests.protocol.doctor_rig import (
    ALL_RIGHTS,
    EXTENDER,
    PLUGIN,
    SCHEDULER,
    SERVICE,
    SYSTEM,
    DoctorRig,
    config_map,
    examine_with,
    policy_binding,
    program_pod,
)
from tests.unit.certificates import certificate_pem

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
OURS = "http://10.96.1.37:32766/gcushare-scheduler"


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


def calling(url: str = OURS, *resources: str) -> when.Scenario:
    """The scheduler reads a ConfigMap, as the chart's second scheduler does."""
    return lambda rig: configure_by_config_map(rig, url, *(resources or (ENFLAME.memory_resource,)))


def configure_by_config_map(rig: DoctorRig, url: str, *resources: str) -> None:
    managed = "".join(f"      - name: {resource}\n" for resource in resources)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n  - schedulerName: gcushare-scheduler\nextenders:\n"
        f"  - urlPrefix: {url}\n    bindVerb: bind\n    managedResources:\n{managed}"
    )
    rig.put(config_map("second", scheduler__yaml=text))
    mounts = {"volumeMounts": [{"name": "config", "mountPath": "/etc/gcushare"}]}
    volumes = [{"name": "config", "configMap": {"name": "second"}}]
    set_scheduler_flags(rig, "--config=/etc/gcushare/scheduler.yaml", container=mounts, volumes=volumes)


def claims_that_no_scheduler_ignores(rig: DoctorRig) -> None:
    calling()(rig)
    pod = pod_document("waits", None, annotations={CLAIMED_RESOURCE: ENFLAME.memory_resource})
    mark = {ENFLAME.claims.extender_resource: "4"}
    pod["spec"]["containers"][0]["resources"] = {"limits": mark, "requests": mark}
    rig.put_pod(pod, age_s=600.0, phase="Pending", conditions=[])


WHOLE_CARDS = when.at_once(
    when.annotated(ENFLAME.inventory_annotation, inventory_text(cards(16, 16), modes=BOTH_MODES)),
    lambda rig: rig.change_node(lambda node: node["status"]["capacity"].update({ENFLAME.whole_card_resource: "2"})),
)
NEVER_ASKED = when.answering(filters=0)
ASKED_IN_VAIN = when.at_once(NEVER_ASKED, lambda rig: rig.put_asking("waits", 4))
MANAGED = when.at_once(when.without("pods", SCHEDULER, SYSTEM), NEVER_ASKED)
OUT_OF_SIGHT = when.at_once(when.labelled("node-role.kubernetes.io/master", ""), MANAGED)
WITH_OWN_FILE = when.at_once(lambda rig: set_scheduler_flags(rig, "--config=/etc/kubernetes/own.yaml"), NEVER_ASKED)
ONLY_WARNING = when.at_once(
    when.without("validatingadmissionpolicybindings.admissionregistration.k8s.io", "records"),
    lambda rig: rig.put(policy_binding("Warn")),
)


def config_manager_that_failed(rig: DoctorRig) -> None:
    report = '{"state": "failed", "reason": "rolled back: unhealthy for 180s"}'
    rig.put(config_map("gcushare-config-manager", mode="apply", node__master=report))


def api_server_that_cannot_list_pods(rig: DoctorRig) -> None:
    rig.api.faults.on(Fault(FailBefore(500, "InternalError", "etcd is away"), path="^/api/v1/pods"))


@when.troubles(
    (lambda rig: set_scheduler_flags(rig, "--x"), "error scheduler-not-calling", "without --config"),
    (calling("http://10.1.1.1/other", "example.com/widgets"), "error scheduler-not-calling", "'http://10.1.1.1/other'"),
    (calling("http://10.96.99.99:32766/gcushare-scheduler"), "error scheduler-other-address", "10.96.99.99:32766"),
    (calling(OURS, "enflame.com/other"), "error scheduler-resource-unmanaged", "gcu-memory"),
    (claims_that_no_scheduler_ignores, "error claims-unmanaged", "1 pod waits with claims that"),
    (when.at_once(WHOLE_CARDS, calling()), "warning whole-cards-unmanaged", "n1 serve whole cards"),
    (
        calling(OURS, ENFLAME.memory_resource, ENFLAME.whole_card_resource),
        "warning whole-cards-unserved",
        "no plugin serves",
    ),
    (ASKED_IN_VAIN, "error scheduler-not-calling", "1 pod waits"),
    (MANAGED, "warning control-plane-out-of-reach", "no node of 1 is labelled"),
    (OUT_OF_SIGHT, "info scheduler-unseen", "no call yet"),
    (WITH_OWN_FILE, "info scheduler-unseen", "own.yaml"),
    (config_manager_that_failed, "error config-manager-failed", "unhealthy for 180s"),
    (when.NO_EXTENDER, "error extender-missing", "no such Service"),
    (when.answering(leader=0), "error no-leader", f"held by {EXTENDER}"),
    (lambda rig: rig.put_extender("another", rig.extender.port), "error two-leaders", "2 replicas"),
    (when.without("endpoints", SERVICE, SYSTEM), "error extender-unreachable", "no endpoints"),
    (lambda rig: rig.set_status(version="0.9.4"), "warning versions-differ", "0.9.4"),
    (when.without(POLICIES, "records"), "warning policy-missing", "there is no ValidatingAdmissionPolicy"),
    (ONLY_WARNING, "warning policy-missing", "no binding that denies"),
    (when.having(certificate_pem(days=10)), "warning certificate-expires", "in 10 d"),
    (when.having(certificate_pem(days=-1)), "error certificate-expires", "24 h ago"),
    (when.having(b"rubbish"), "warning certificate-unreadable", "no PEM certificate"),
    (api_server_that_cannot_list_pods, "warning not-readable", "etcd is away"),
)
async def test_each_trouble_is_found_and_nothing_else(
    rig: DoctorRig, scenario: when.Scenario, kind: str, words: str
) -> None:
    scenario(rig)
    (await rig.examine()).assert_only(kind, words)


async def test_an_extender_that_does_not_answer_is_reported_of_its_pod_and_its_service(rig: DoctorRig) -> None:
    rig.extender.pages.clear()
    answer = await rig.examine()
    assert answer.kinds == {"error extender-unreachable"}
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
    assert (await rig.examine("--scheduler-config", str(config))).kinds == {"error scheduler-other-address"}
    config.write_text("extenders: [")
    assert (await rig.examine("--scheduler-config", str(config))).kinds == {"error scheduler-not-calling"}


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
    assert (await rig.examine("--scheduler-config", str(config))).kinds == {"error scheduler-not-calling"}


async def test_no_policy_is_expected_of_a_kubernetes_that_has_none(tmp_path: Path) -> None:
    async with DoctorRig(tmp_path, version="v1.29.4") as rig:
        rig.delete(POLICIES, "records")
        assert (await rig.examine()).kinds == set()


async def test_the_second_scheduler_makes_the_first_ones_ignorance_right(rig: DoctorRig) -> None:
    calling(f"http://{SERVICE}.{SYSTEM}.svc:32766/gcushare-scheduler")(rig)
    rig.put_pod(program_pod("kube-scheduler-other", "kube-scheduler", 10259, "--leader-elect", node="master"))
    pod = pod_document("full", 4)
    pod["spec"]["schedulerName"] = "gcushare-scheduler"
    tried = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    rig.put_pod(pod, age_s=600, phase="Pending", conditions=tried)
    assert (await rig.examine()).kinds == set(), "Enflame's gcushare has a scheduler of that name too"
    rig.put_pod(pod_document("nameless", 4), age_s=600, phase="Pending", conditions=tried)
    found = await rig.examine()
    found.assert_only("warning scheduler-not-calling", "1 pod asks it for cards, and it calls no extender")
    assert "schedulerName: gcushare-scheduler; a policy" in found.finding("scheduler-not-calling")["remedy"]
    of_its_host = "--config=/etc/kubernetes/gcushare/scheduler-extender-config-v1.23+.yaml"
    rig.put_pod(program_pod("kube-scheduler-third", "kube-scheduler", 10259, of_its_host, node="third"))
    assert (await rig.examine()).kinds == set(), "one that reads a file of the config manager may call it too"
    nothing = {"scheduler.yaml": "profiles: []\nextenders: []\n"}
    rig.change("configmaps", "second", lambda found: found.update(data=nothing), SYSTEM)
    assert "error other-scheduler" in (await rig.examine()).kinds


@pytest.mark.parametrize("level", ["restricted", "privileged"])
async def test_a_namespace_that_refuses_our_programs_is_found(rig: DoctorRig, level: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    rig.change("namespaces", SYSTEM, lambda found: found["metadata"].update(labels=labels))
    found = await rig.examine()
    if level == "privileged":
        assert found.kinds == set()
        return
    found.assert_only("error namespace-refuses-programs", f"enforces the Pod Security level {level!r}")
    rig.delete("pods", PLUGIN, SYSTEM)
    assert "error namespace-refuses-programs" in (await rig.examine()).kinds, "also where they are refused already"


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


async def test_the_rights_that_are_named_are_enough(rig: DoctorRig) -> None:
    rig.mount_certificate(certificate_pem(days=100))
    rig.put(config_map("gcushare-config-manager", mode="apply"))
    assert (await examine_with(rig, *ALL_RIGHTS)).kinds == set()
    assert rig.api.requests.refused("looker") == []


@pytest.mark.parametrize("left_out", ALL_RIGHTS, ids=lambda right: f"{right[0]} {right[1]}")
async def test_a_missing_right_is_named_and_nothing_is_made_of_what_was_not_seen(
    rig: DoctorRig, left_out: tuple[str, str, str]
) -> None:
    rig.mount_certificate(certificate_pem(days=100))
    answer = await examine_with(rig, *(right for right in ALL_RIGHTS if right != left_out))
    assert answer.kinds == {"warning missing-right"}
    verb, resource, group = left_out
    words = f'cannot {verb} resource "{resource}" in API group "{group}"'
    assert words in answer.finding("missing-right")["problem"]


async def test_a_cluster_whose_nodes_may_not_be_read_is_not_said_to_have_no_cards(rig: DoctorRig) -> None:
    when.at_once(when.NO_EXTENDER, when.without("pods", PLUGIN, SYSTEM))(rig)
    answer = await examine_with(rig, *(right for right in ALL_RIGHTS if right != ("list", "nodes", "")))
    assert answer.kinds == {"warning missing-right"}
