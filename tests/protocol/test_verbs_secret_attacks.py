"""The Secret with the certificates of the scheduler's calls: who reaches it, and what its loss does to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gcushare.core.errors import ForbiddenError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.credentials import FixedHeader
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Selector
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import SECRETS, CertificateKeeper
from gcushare.wire.contracts import CA, CLIENT_CERT, SERVER_CERT
from gcushare_playground.apiserver import ApiServer, RbacAuthorizer, User, service_account
from tests.api_objects import an_object, delete, find, grant, merge_into
from tests.charts import UMBRELLA_CHART, in_one_worker, needs_helm, of_kind, rendered
from tests.protocol.test_verbs_renewal import SECRET, TERMS

CHART_SECRET = "gcushare-scheduler-extender-verbs"
SECOND = "gcushare-scheduler-extender-chart.scheduler.mode=second-scheduler"


def put_secret(server: ApiServer, namespace: str, data: Mapping[str, str] | None = None) -> None:
    """Make the Secret, or replace all that it holds."""
    put_namespace(server, namespace)
    server.registry.put(an_object("Secret", SECRET.name, namespace, data=dict(data or {})))


def put_namespace(server: ApiServer, name: str) -> None:
    if name not in {each["metadata"]["name"] for each in server.store.list("namespaces")}:
        server.registry.put(an_object("Namespace", name))


@pytest.fixture
async def keeper(server: ApiServer, client: KubeClient, tmp_path: Path) -> CertificateKeeper:
    """One that has filled the Secret."""
    put_secret(server, SECRET.namespace)
    made = CertificateKeeper(client, SECRET, TERMS, tmp_path, clock=SystemClock())
    assert await made.check()
    return made


def served(keeper: CertificateKeeper) -> bytes:
    return keeper.files.cert.read_bytes()


async def test_a_deleted_secret_leaves_the_files_in_use_and_is_filled_again_once_it_is_back(
    server: ApiServer, keeper: CertificateKeeper
) -> None:
    before = served(keeper)
    delete(server, "Secret", SECRET.name, SECRET.namespace)
    assert not await keeper.check(), "tried again soon"
    assert served(keeper) == before
    assert keeper.obstacle is None
    put_secret(server, "tenant", {CA: "bm90IG91cnM="})
    assert not await keeper.check(), "a Secret of that name in another namespace is another one"
    put_secret(server, SECRET.namespace)
    assert await keeper.check()
    assert served(keeper) != before


@pytest.mark.parametrize("lost", [(CA,), (SERVER_CERT, CLIENT_CERT), (CLIENT_CERT,)], ids=str)
async def test_a_half_written_secret_is_replaced_by_a_set_that_belongs_together(
    server: ApiServer, keeper: CertificateKeeper, lost: tuple[str, ...]
) -> None:
    merge_into(server, "Secret", SECRET.name, {"data": dict.fromkeys(lost)}, SECRET.namespace)
    assert await keeper.check()
    found = find(server, "Secret", SECRET.name, SECRET.namespace)["data"]
    assert all(found.get(name) for name in (CA, SERVER_CERT, CLIENT_CERT))


def load_rights(server: ApiServer, objects: Sequence[dict[str, Any]]) -> set[str]:
    """Grant what the charts grant; returns the names of the service accounts."""
    for each in of_kind(objects, "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"):
        server.registry.put(each)
    return {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}


async def reaches(server: ApiServer, user: User, namespace: str) -> set[str]:
    """The verbs by which a user reaches the chart's Secret."""
    done = set()
    config = KubeConfig(server.url, "the test", FixedHeader(f"Bearer {server.add_user(user)}"))
    patch = Patch(PatchKind.MERGE, {"metadata": {"labels": {"touched": "yes"}}})
    async with KubeClient(config) as client:
        for verb, call in (
            ("get", lambda: client.get(SECRETS, CHART_SECRET, namespace=namespace)),
            ("patch", lambda: client.patch(SECRETS, CHART_SECRET, patch, namespace=namespace)),
            ("list", lambda: client.newest_version(SECRETS, Selector(namespace=namespace))),
            ("delete", lambda: client.delete(SECRETS, CHART_SECRET, namespace=namespace)),
        ):
            try:
                await call()
            except ForbiddenError:
                continue
            done.add(verb)
    return done


@needs_helm
@in_one_worker
@pytest.mark.parametrize("values", [(), (SECOND,)], ids=["config-manager", "second-scheduler"])
async def test_of_all_accounts_only_the_extenders_reaches_the_secret_and_an_admin_of_a_namespace_does_not(
    server: ApiServer, values: tuple[str, ...]
) -> None:
    objects = rendered(UMBRELLA_CHART, *values)
    accounts = load_rights(server, objects)
    server.registry.put(an_object("Secret", CHART_SECRET, "kube-system"))
    rules = [{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]
    put_namespace(server, "tenant")
    grant(server, {"kind": "User", "name": "mallory"}, rules, "tenant-admin", "tenant")
    server.authorizer = RbacAuthorizer(server.store)
    for name in accounts:
        expected = {"get", "patch"} if name == "gcushare-scheduler-extender" else set()
        assert await reaches(server, service_account("kube-system", name), "kube-system") == expected, name
    mallory = User("mallory", ("system:authenticated",))
    assert await reaches(server, mallory, "kube-system") == set()
    assert len(accounts) >= 3
