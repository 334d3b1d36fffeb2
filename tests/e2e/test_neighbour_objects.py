"""The objects of other systems that the tests use are ones that kube-apiserver takes, field by field."""

from __future__ import annotations

import pytest

from gcushare_playground.apiserver.resources import BY_NAME
from tests.e2e.control_plane import ControlPlane
from tests.neighbours import FOLDER, read_objects


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
async def test_kube_apiserver_takes_every_field_of_them(control_plane: ControlPlane, name: str) -> None:
    objects = read_objects(name)
    for each in sorted(objects, key=lambda found: found["kind"] != "Namespace"):
        group, _, version = each["apiVersion"].rpartition("/")
        (resource,) = (r for r in BY_NAME.values() if (r.group, r.version, r.kind) == (group, version, each["kind"]))
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        namespace = each["metadata"].get("namespace")
        path = f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"
        # A namespace has to exist for what goes into it; nothing else is kept.
        query = "fieldValidation=Strict" + ("" if each["kind"] == "Namespace" else "&dryRun=All")
        async with control_plane.http.request("POST", f"{control_plane.url}{path}?{query}", json=each) as answer:
            assert answer.status in (201, 409), f"{each['kind']}: {await answer.text()}"
