"""The Secret with the certificates of the scheduler's calls: who reaches it, and what its loss does to a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.scheduler_extender.mutual_tls.certificate_keeper import CertificateKeeper
from gcushare.wire.contracts import CA
from gcushare_playground.apiserver import ApiServer
from tests.api_objects import an_object, delete
from tests.protocol.test_verbs_renewal import SECRET, TERMS


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
