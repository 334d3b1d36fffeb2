"""An API server that reviews tokens: one user may see the page, one may not, and the extender may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import FixedHeader
from gcushare.scheduler_extender.dashboard.token_reviews import PATH
from gcushare_playground.apiserver import ApiServer, ApiServerConfig, RbacAuthorizer, User, service_account
from tests.api_objects import grant

JANE = User("jane", ("viewers", "system:authenticated"))
MALLORY = User("mallory", ("system:authenticated",))
EXTENDER = service_account("kube-system", "gcushare-scheduler-extender")
_ACCOUNT = {"kind": "ServiceAccount", "namespace": "kube-system", "name": "gcushare-scheduler-extender"}
_VIEWER = [{"nonResourceURLs": [PATH], "verbs": ["get"]}]
_DELEGATOR = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]


@asynccontextmanager
async def reviewing_api() -> AsyncIterator[ApiServer]:
    """Run an API server with RBAC in which jane and the extender have their roles."""
    async with ApiServer(ApiServerConfig(runs_controllers=False, anonymous=None)) as server:
        server.authorizer = RbacAuthorizer(server.store)
        grant(server, {"kind": "User", "name": JANE.name}, _VIEWER, "viewer")
        grant(server, _ACCOUNT, _DELEGATOR, "auth-delegator")
        yield server


def extender_client(api: ApiServer) -> KubeClient:
    """Make the client that the extender asks with."""
    return KubeClient(KubeConfig(api.url, "test", credentials=FixedHeader(f"Bearer {api.add_user(EXTENDER)}")))
