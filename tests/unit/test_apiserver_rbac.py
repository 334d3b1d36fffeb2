from __future__ import annotations

import pytest

from gcushare_playground.apiserver import Attributes, RbacAuthorizer, Registry, Storage, service_account
from gcushare_playground.apiserver.bootstrap import ensure_cluster
from gcushare_playground.apiserver.identities import ANONYMOUS
from gcushare_playground.apiserver.objects import JsonObject

PLUGIN = service_account("kube-system", "plugin", node="n1")
RBAC = "rbac.authorization.k8s.io/v1"


def new_registry() -> Registry:
    registry = Registry(Storage(1000), clock=lambda: 1_800_000_000.0)
    ensure_cluster(registry)
    return registry


def _grant(registry: Registry, rules: list[JsonObject]) -> None:
    account = {"kind": "ServiceAccount", "name": "plugin", "namespace": "kube-system"}
    ref = {"kind": "ClusterRole", "name": "r"}
    registry.put({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules})
    binding = {"metadata": {"name": "b"}, "roleRef": ref, "subjects": [account]}
    registry.put({"apiVersion": RBAC, "kind": "ClusterRoleBinding", **binding})


def _may_patch_status(registry: Registry) -> bool:
    attributes = Attributes(PLUGIN, "patch", resource="nodes", subresource="status", name="n1")
    return RbacAuthorizer(registry.storage).allows(attributes)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}, True, id="exactly that"),
        pytest.param({"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}, False, id="not its subresource"),
        pytest.param({"apiGroups": [""], "resources": ["*/status"], "verbs": ["*"]}, True, id="every status"),
        pytest.param(
            {"apiGroups": ["apps"], "resources": ["nodes/status"], "verbs": ["patch"]}, False, id="other group"
        ),
        pytest.param(
            {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"], "resourceNames": ["n2"]},
            False,
            id="other name",
        ),
    ],
)
def test_a_rule_grants_what_it_names(rule: JsonObject, expected: bool) -> None:
    registry = new_registry()
    _grant(registry, [rule])
    assert _may_patch_status(registry) is expected


def test_without_a_rule_nothing_is_granted_but_discovery() -> None:
    registry = new_registry()
    authorizer = RbacAuthorizer(registry.storage)
    assert not _may_patch_status(registry)
    assert authorizer.allows(Attributes(PLUGIN, "get", path="/apis/apps/v1"))
    assert not authorizer.allows(Attributes(PLUGIN, "get", path="/metrics"))
    assert not authorizer.allows(Attributes(ANONYMOUS, "get", path="/apis"))
