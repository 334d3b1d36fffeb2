from __future__ import annotations

from typing import Any

import pytest

from gcushare_playground.apiserver import Attributes, RbacAuthorizer, Registry, User, service_account
from gcushare_playground.apiserver.identities import ANONYMOUS
from gcushare_playground.apiserver.objects import JsonObject
from tests.unit.apiserver_objects import new_registry

PLUGIN = service_account("kube-system", "plugin", node="n1")
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def registry() -> Registry:
    return new_registry()


def _grant(
    registry: Registry, rules: list[JsonObject], *, namespace: str = "", subject: JsonObject | None = None
) -> None:
    kinds = ("Role", "RoleBinding") if namespace else ("ClusterRole", "ClusterRoleBinding")
    where = {"namespace": namespace} if namespace else {}
    account = {"kind": "ServiceAccount", "name": "plugin", "namespace": "kube-system"}
    registry.put({"apiVersion": RBAC, "kind": kinds[0], "metadata": {"name": "r", **where}, "rules": rules})
    registry.put(
        {
            "apiVersion": RBAC,
            "kind": kinds[1],
            "metadata": {"name": "b", **where},
            "roleRef": {"kind": kinds[0], "name": "r"},
            "subjects": [subject or account],
        }
    )


def _asks(registry: Registry, user: User = PLUGIN, verb: str = "patch", **what: Any) -> bool:
    attributes = Attributes(user, verb, **{"resource": "nodes", "subresource": "status", "name": "n1"} | what)
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
def test_a_rule_grants_what_it_names(registry: Registry, rule: JsonObject, expected: bool) -> None:
    _grant(registry, [rule])
    assert _asks(registry) is expected


def test_without_a_rule_nothing_is_granted_but_discovery(registry: Registry) -> None:
    authorizer = RbacAuthorizer(registry.storage)
    assert not _asks(registry)
    assert authorizer.allows(Attributes(PLUGIN, "get", path="/apis/apps/v1"))
    assert not authorizer.allows(Attributes(PLUGIN, "get", path="/metrics"))
    assert not authorizer.allows(Attributes(ANONYMOUS, "get", path="/apis"))
