"""What kube-apiserver refuses, changes and takes: false static pods, docs/install.md's policy, others' objects."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import aiohttp
import pytest

from gcushare.core.errors import GcushareError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.wire.pods import MIRROR
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.picture import POD_OBJECTS
from tests.documents import page_text
from tests.e2e.control_plane import ControlPlane
from tests.e2e.conversation import hold
from tests.e2e.installing import kubectl
from tests.e2e.objects import pod
from tests.e2e.waiting import until
from tests.neighbours import FOLDER, read_objects

KNOWN = {
    "annotate with a number": "kube-apiserver blames the patch (422) where the double blames the object (400)",
    "no such group": "outside of every API, kube-apiserver answers plain text instead of a Status",
    "delete": "kube-apiserver shows a pod that is deleted at once with a deletion time",
    "end it": "as above",
    "is deleted at once": "as above",
}
"""Where the double differs and may: no client of ours reads these parts of an answer."""


async def test_the_double_answers_as_kube_apiserver_does(control_plane: ControlPlane) -> None:
    real = await hold(control_plane.http, control_plane.url)
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as double, aiohttp.ClientSession() as session:
        doubled = await hold(session, double.url)
    pairs = zip(real, doubled, strict=True)
    different = {words: (answer, other) for (words, answer), (_, other) in pairs if answer != other}
    assert set(different) == set(KNOWN), different


async def test_a_pod_that_a_scheduler_places_has_no_mirror_annotation(control_plane: ControlPlane) -> None:
    body = pod("passes-for-static", 4)
    body["metadata"]["annotations"] = {MIRROR: "0123456789abcdef"}
    with pytest.raises(GcushareError, match=r"must set spec\.nodeName if mirror pod annotation is set"):
        await control_plane.client.create(POD_OBJECTS, body, namespace="default")


async def test_the_mirror_annotation_is_not_added_later(control_plane: ControlPlane) -> None:
    await control_plane.client.create(POD_OBJECTS, pod("ordinary", 4), namespace="default")
    patch = Patch(PatchKind.MERGE, {"metadata": {"annotations": {MIRROR: "0123456789abcdef"}}})
    with pytest.raises(GcushareError, match="may not add mirror pod annotation"):
        await control_plane.client.patch(POD_OBJECTS, "ordinary", patch, namespace="default")


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


async def test_a_pod_that_asks_for_memory_and_names_no_scheduler_gets_the_second_one(
    control_plane: ControlPlane,
) -> None:
    path = control_plane.root / "policy.yaml"
    path.write_text(page_text("install.md", "# Set the scheduler of pods"))
    await asyncio.to_thread(kubectl, control_plane, "apply", "-f", str(path))

    async def scheduler_of(name: str, units: int, **spec: Any) -> str:
        made = await control_plane.client.create(POD_OBJECTS, pod(name, units, **spec), namespace="default")
        return str(made["spec"]["schedulerName"])

    tries = count()

    async def missing() -> str:
        found = await scheduler_of(f"try-{next(tries)}", 4)
        return "" if found == "gcushare-scheduler" else f"a pod for {found}"

    await until(missing, "the policy holds")
    assert await scheduler_of("named", 4, schedulerName="other") == "other"
    assert await scheduler_of("asks-for-nothing", 0) == "default-scheduler"
