"""An API server that reviews tokens: one user may see the page, one may not, and the extender may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import FixedHeader
from gcushare.scheduler_extender.dashboard.token_reviews import PATH
from gcushare_playground.apiserver import ApiServer, ApiServerConfig, RbacAuthorizer, User, service_account

RBAC = "rbac.authorization.k8s.io/v1"
JANE = User("jane", ("viewers", "system:authenticated"))
MALLORY = User("mallory", ("system:authenticated",))
EXTENDER = service_account("kube-system", "gcushare-scheduler-extender")
_ACCOUNT = {"kind": "ServiceAccount", "namespace": "kube-system", "name": "gcushare-scheduler-extender"}
_RULES: dict[str, list[dict[str, Any]]] = {
    "viewer": [{"nonResourceURLs": [PATH], "verbs": ["get"]}],
    "auth-delegator": [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ],
}


@asynccontextmanager
async def reviewing_api() -> AsyncIterator[ApiServer]:
    """Run an API server with RBAC in which jane and the extender have their roles."""
    async with ApiServer(ApiServerConfig(runs_controllers=False, anonymous=None)) as server:
        server.authorizer = RbacAuthorizer(server.store)
        for name, subject in (("viewer", {"kind": "User", "name": JANE.name}), ("auth-delegator", _ACCOUNT)):
            server.registry.put(
                {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": _RULES[name]}
            )
            reference = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
            binding = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name}}
            server.registry.put({**binding, "roleRef": reference, "subjects": [subject]})
        yield server


def extender_client(api: ApiServer) -> KubeClient:
    """Make the client that the extender asks with."""
    return KubeClient(KubeConfig(api.url, "test", credentials=FixedHeader(f"Bearer {api.add_user(EXTENDER)}")))
