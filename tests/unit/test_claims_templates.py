"""Which templates should exist, when unused ones go, and what becomes of those that an attacker wrote."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.core.units import parse_memory_unit
from gcushare.scheduler_extender.claims.template_plan import (
    MAX_TEMPLATES,
    OWN_LABELS,
    DueStep,
    Step,
    TemplateKey,
    TemplatePlan,
    trimmed,
)
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.dra.claim_names import ClaimSize
from gcushare.wire.dra.claims import (
    RESOURCE_CLAIM_TEMPLATE,
    CapacityRequests,
    ClaimSpec,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaimTemplate,
    TemplateSpec,
    new_template,
    template_spec,
)
from gcushare.wire.objects import ObjectHead, ObjectMeta, Pod, PodResourceClaim, PodSpec, PodStatus

FIVE = TemplateKey("team", "gcu-memory-5")


def make_plan(*, opted_in: bool = True) -> TemplatePlan:
    units = [(ENFLAME, parse_memory_unit("1")), (ALIYUN, parse_memory_unit("MiB"))]
    plan = TemplatePlan(units, 60.0, lambda: None)
    if opted_in:
        plan.namespaces.applied(ObjectHead(metadata=ObjectMeta(name="team", uid="team")))
    return plan


def waiting(uid: str, *names: str, namespace: str = "team", phase: str = "Pending") -> Pod:
    claims = tuple(PodResourceClaim(name="c", resource_claim_template_name=name) for name in names)
    meta = ObjectMeta(name=f"pod-{uid}", namespace=namespace, uid=uid)
    return Pod(metadata=meta, spec=PodSpec(resource_claims=claims), status=PodStatus(phase=phase))


def template(plan: TemplatePlan, key: TemplateKey, uid: str = "t") -> ResourceClaimTemplate:
    spec = plan.spec_of(key)
    assert spec is not None
    made = new_template(key.name, key.namespace, OWN_LABELS, spec)
    return ResourceClaimTemplate(metadata=ObjectMeta(name=key.name, namespace=key.namespace, uid=uid), spec=made.spec)


def test_a_template_is_made_when_a_pod_waits_for_it() -> None:
    plan = make_plan()
    assert plan.next_step(FIVE, 0) is None
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.changed >= {FIVE}
    assert plan.next_step(FIVE, 0) == DueStep(Step.CREATE)
    plan.templates.applied(template(plan, FIVE))
    assert plan.next_step(FIVE, 0) is None


def test_names_that_are_not_ours_are_left_to_others() -> None:
    plan = make_plan()
    plan.pod_applied(waiting("p", "other-5"))
    assert plan.changed == set()
    assert plan.next_step(TemplateKey("team", "other-5"), 0) is None


def test_a_namespace_that_did_not_opt_in_gets_nothing_until_it_does() -> None:
    plan = make_plan(opted_in=False)
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.next_step(FIVE, 0) is None
    plan.changed.clear()
    plan.namespaces.applied(ObjectHead(metadata=ObjectMeta(name="team", uid="team")))
    assert plan.changed == {FIVE}
    assert plan.next_step(FIVE, 0) == DueStep(Step.CREATE)


def test_an_unused_template_goes_after_its_time_counted_from_the_last_pod() -> None:
    plan = make_plan()
    plan.templates.applied(template(plan, FIVE))
    assert plan.next_step(FIVE, 100) == DueStep(Step.DELETE, 160)
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.next_step(FIVE, 150) is None
    plan.pod_deleted("p")
    assert plan.next_step(FIVE, 200) == DueStep(Step.DELETE, 260)


def test_a_namespace_has_a_bound_on_its_templates() -> None:
    plan = make_plan()
    for number in range(1, MAX_TEMPLATES + 1):
        key = TemplateKey("team", f"gcu-memory-{number}")
        plan.templates.applied(template(plan, key, uid=str(number)))
    plan.pod_applied(waiting("p", "gcu-memory-999"))
    assert plan.next_step(TemplateKey("team", "gcu-memory-999"), 0) == DueStep(Step.REFUSE)
    plan.templates.retained(frozenset({"1"}), "9")
    assert plan.next_step(TemplateKey("team", "gcu-memory-999"), 0) == DueStep(Step.CREATE)


def test_two_pods_share_a_template_and_the_last_one_counts() -> None:
    plan = make_plan()
    for uid in ("p", "q"):
        plan.pod_applied(waiting(uid, FIVE.name, FIVE.name))
    plan.templates.applied(template(plan, FIVE))
    assert {pod.name for pod in plan.users(FIVE)} == {"pod-p", "pod-q"}
    plan.pods_retained(frozenset({"q"}), "9")
    assert plan.next_step(FIVE, 0) is None
    plan.pods_retained(frozenset(), "10")
    assert plan.next_step(FIVE, 0) == DueStep(Step.DELETE, 60)


def test_a_pod_that_runs_waits_for_no_template() -> None:
    plan = make_plan()
    plan.pod_applied(waiting("p", FIVE.name))
    plan.pod_applied(waiting("p", FIVE.name, phase="Running"))
    assert plan.next_step(FIVE, 0) is None
    assert plan.users(FIVE) == ()


@pytest.mark.parametrize(
    ("size", "unit", "amount"),
    [
        (ClaimSize(5), "1", "5Gi"),
        (ClaimSize(5), "MiB", "5Mi"),
        (ClaimSize(3), "0.1", str(3 * (2**30 // 10))),
        (ClaimSize(1536), "MiB", "1536Mi"),
    ],
)
def test_a_claim_asks_for_the_bytes_of_its_units(size: ClaimSize, unit: str, amount: str) -> None:
    (request,) = template_spec(size, ENFLAME, parse_memory_unit(unit)).spec.devices.requests
    assert request.exactly.capacity.requests == {"memory": amount}
    assert (request.exactly.count, request.exactly.device_class_name) == (1, ENFLAME.claims.memory_class)


def test_several_cards_must_be_different_ones() -> None:
    devices = template_spec(ClaimSize(5, 2), ALIYUN, parse_memory_unit("GiB")).spec.devices
    assert devices.requests[0].exactly.count == 2
    assert [each.distinct_attribute for each in devices.constraints] == [f"{ALIYUN.claims.driver}/uuid"]


ASKED = {
    "allocationMode": "ExactCount",
    "count": 1,
    "deviceClassName": ENFLAME.claims.memory_class,
    "capacity": {"requests": {"memory": "5Gi"}},
}
"""What our template asks for, with what the API server adds by default."""


def asking(**more: Any) -> dict[str, Any]:
    """The spec of a template."""
    return {"spec": {"devices": {"requests": [{"name": "card", "exactly": ASKED | more}]}}}


ALTERNATIVES = [{"name": "a", "deviceClassName": ENFLAME.claims.memory_class}]


@pytest.mark.parametrize(
    ("spec", "is_ours"),
    [
        pytest.param(asking(), True, id="as the API server has ours"),
        pytest.param(asking(adminAccess=True), False, id="admin access"),
        pytest.param(asking(tolerations=[{"operator": "Exists"}]), False, id="tolerations"),
        pytest.param(asking(selectors=[{"cel": {"expression": "true"}}]), False, id="selectors"),
        pytest.param(asking(capacity={"requests": {"memory": "5Gi", "other": "1"}}), False, id="amounts"),
        pytest.param(asking() | {"metadata": {"annotations": {"a": "b"}}}, False, id="marks on its claims"),
        pytest.param(
            {"spec": {"devices": {"requests": [{"name": "card", "firstAvailable": ALTERNATIVES}]}}},
            False,
            id="alternatives",
        ),
    ],
)
def test_a_template_with_another_spec_is_deleted(spec: dict[str, Any], *, is_ours: bool) -> None:
    plan = make_plan()
    metadata = {"name": FIVE.name, "namespace": FIVE.namespace, "uid": "t"}
    plan.templates.applied(RESOURCE_CLAIM_TEMPLATE.read(msgspec.json.encode({"metadata": metadata, "spec": spec})))
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.next_step(FIVE, 0) == (None if is_ours else DueStep(Step.DELETE))


def deleted(found: ResourceClaimTemplate) -> ResourceClaimTemplate:
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(found, metadata=metadata)


def test_a_forged_template_that_a_finalizer_holds_is_waited_for_and_not_deleted_again() -> None:
    plan = make_plan()
    nine = plan.spec_of(TemplateKey("team", "gcu-memory-9"))
    big = msgspec.structs.replace(template(plan, FIVE), spec=nine)
    plan.templates.applied(deleted(big))
    assert plan.next_step(FIVE, 0) is None
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.next_step(FIVE, 0) is None
    plan.templates.deleted(deleted(big))
    assert plan.next_step(FIVE, 0) == DueStep(Step.CREATE)


@pytest.mark.parametrize("is_spec", [True, False], ids=["spec", "labels"])
def test_little_is_kept_of_a_template_as_large_as_an_object_may_be(is_spec: bool) -> None:
    """With our label it is followed; a finalizer keeps it as long as its author likes."""
    plan = make_plan()
    plan.pod_applied(waiting("p", FIVE.name))
    large = dict.fromkeys((f"k{number}" for number in range(50_000)), "1")
    own = template(plan, FIVE)
    if is_spec:
        exactly = ExactRequest(capacity=CapacityRequests(requests=large))
        spec = ClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(exactly=exactly),)))
        found = trimmed(msgspec.structs.replace(own, spec=TemplateSpec(spec=spec)))
    else:
        found = trimmed(msgspec.structs.replace(own, metadata=msgspec.structs.replace(own.metadata, labels=large)))
    plan.templates.applied(found)
    assert len(msgspec.json.encode(found)) < 4096
    assert plan.next_step(FIVE, 0) == (DueStep(Step.DELETE) if is_spec else None)
