"""Someone with the rights of the role ``edit`` in one namespace, and no others: the author of pods that attack."""

from __future__ import annotations

from dataclasses import dataclass

from gcushare.core.errors import NotFoundError
from gcushare.kube.patches import Patch, PatchKind
from gcushare_playground.picture import POD_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import JsonObject
from tests.e2e.waiting import until

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
PODS = "/api/v1/namespaces/default/pods"
KEPT = ["example.com/as-long-as-the-author-likes"]
"""Finalizers of a pod that its author keeps."""


@dataclass(frozen=True, slots=True)
class Author:
    """Sends requests in the author's name."""

    cluster: ControlPlane

    async def send(self, method: str, path: str, body: object = None) -> tuple[int, JsonObject]:
        """Send a request; a patch is a merge patch."""
        kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
        headers = {"Impersonate-User": "author"} | kind
        async with self.cluster.http.request(method, self.cluster.url + path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def make(self, path: str, body: object) -> JsonObject:
        """Create an object, which must succeed."""
        status, made = await self.send("POST", path, body)
        assert status == 201, made
        return made

    async def let_go(self) -> None:
        """Remove the finalizers of all pods, as an administrator who cleans up."""
        client = self.cluster.client
        for each in await client.list_all(POD_OBJECTS):
            meta = each["metadata"]
            if meta.get("finalizers"):
                free = Patch(PatchKind.MERGE, {"metadata": {"finalizers": None}})
                try:
                    await client.patch(POD_OBJECTS, meta["name"], free, namespace=meta["namespace"])
                except NotFoundError:
                    continue


async def make_author(cluster: ControlPlane) -> Author:
    """Bind to the author what ``edit`` has: these two roles, which kube-controller-manager puts together."""
    group = "rbac.authorization.k8s.io"
    for role in ("system:aggregate-to-edit", "system:aggregate-to-view"):
        body = {
            "metadata": {"name": f"author-{role.rpartition('-')[2]}"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "author"}],
        }
        async with cluster.http.post(cluster.url + BINDINGS, json=body) as answer:
            assert answer.status in (201, 409), await answer.text()
    author = Author(cluster)

    async def refused() -> str:
        may = [await author.send(method, f"{PODS}/none") for method in ("GET", "DELETE")]
        return "" if {status for status, _ in may} == {404} else str(may)

    await until(refused, "the author's rights hold")
    return author
