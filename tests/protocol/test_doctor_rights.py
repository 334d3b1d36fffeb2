"""What the doctor may read: the documented rights are enough, and a missing one is named."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver import RbacAuthorizer, User
from tests.api_objects import grant
from tests.protocol.doctor_rig import EXTENDER, PLUGIN, SERVICE, SYSTEM, DoctorRig, config_map
from tests.unit.certificates import certificate_pem

ALL_RIGHTS = (
    ("list", "nodes", ""),
    ("list", "pods", ""),
    ("get", "pods/proxy", ""),
    ("get", "services/proxy", ""),
    ("get", "services", ""),
    ("get", "configmaps", ""),
    ("get", "leases", "coordination.k8s.io"),
    ("list", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
    ("list", "validatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    ("get", "secrets", ""),
    ("list", "resourceslices", "resource.k8s.io"),
    ("get", "namespaces", ""),
)


LOOKER = User("looker", ("system:authenticated",))


def allow(rig: DoctorRig, *rights: tuple[str, str, str]) -> None:
    """Give the user these rights, and no others."""
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for verb, resource, group in rights]
    grant(rig.api, {"kind": "User", "name": LOOKER.name}, rules, "looker")
    rig.api.authorizer = RbacAuthorizer(rig.api.store)


async def examine_with(rig: DoctorRig, *rights: tuple[str, str, str]) -> Any:
    allow(rig, *rights)
    return await rig.examine(user=LOOKER)


async def test_the_rights_that_are_named_are_enough(rig: DoctorRig) -> None:
    rig.mount_certificate(certificate_pem(days=100))
    rig.put(config_map("gcushare-config-manager", mode="apply"))
    answer = await examine_with(rig, *ALL_RIGHTS)
    assert answer.kinds == set()
    assert rig.api.requests.refused("looker") == []


@pytest.mark.parametrize("left_out", ALL_RIGHTS, ids=lambda right: f"{right[0]} {right[1]}")
async def test_a_missing_right_is_named_and_nothing_is_made_of_what_was_not_seen(
    rig: DoctorRig, left_out: tuple[str, str, str]
) -> None:
    rig.mount_certificate(certificate_pem(days=100))
    answer = await examine_with(rig, *(right for right in ALL_RIGHTS if right != left_out))
    assert answer.kinds == {("warning", "missing-right")}
    verb, resource, group = left_out
    words = f'cannot {verb} resource "{resource}" in API group "{group}"'
    assert words in answer.finding("missing-right")["problem"]


async def test_a_cluster_whose_nodes_may_not_be_read_is_not_said_to_have_no_cards(rig: DoctorRig) -> None:
    for kind, name in (("pods", EXTENDER), ("pods", PLUGIN), ("services", SERVICE)):
        rig.delete(kind, name, SYSTEM)
    answer = await examine_with(rig, *(right for right in ALL_RIGHTS if right != ("list", "nodes", "")))
    assert answer.kinds == {("warning", "missing-right")}
