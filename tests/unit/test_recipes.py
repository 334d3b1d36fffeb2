"""docs/recipes.md without a cluster: every block parses, and the extender and the count take what it names."""

from __future__ import annotations

from typing import Any

import msgspec

from gcushare.wire.objects import Pod
from tests.documents import recipe, recipe_names
from tests.extender_objects import Document, a_node, filter_body, state_of
from tests.unit.extender_desk import Desk

NAMES = ["quota", "unit", "priorities", "kueue", "kueue-job", "group", "placeholders"]


def pod_of(document: Document, name: str) -> Document:
    """A pod of a recipe as the API server stores it: its requests are its limits."""
    metadata = {**document.get("metadata", {}), "name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec = msgspec.json.decode(msgspec.json.encode(document["spec"]))
    for container in spec["containers"]:
        given = container["resources"]
        given["requests"] = {**given.get("limits", {}), **given.get("requests", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def named(document: Document) -> list[str]:
    """The nodes that filter names for a pod."""
    answer: dict[str, Any] = msgspec.json.decode(
        Desk((state_of(a_node("node-1", 16, 16)), None)).filter(filter_body(document, ["node-1"])).body
    )
    return answer["NodeNames"] or []


def test_every_block_has_a_name_of_its_own_and_whole_objects() -> None:
    assert recipe_names() == NAMES
    for name in NAMES:
        assert all({"apiVersion", "kind", "metadata"} <= document.keys() for document in recipe(name))


def test_the_extender_places_the_pods() -> None:
    (job,) = recipe("kueue-job")
    assert named(pod_of(job["spec"]["template"], "queued")) == ["node-1"]
    group, member = recipe("group")
    assert named(pod_of(member, "train-0")) == ["node-1"]
    assert msgspec.convert(pod_of(member, "train-0"), Pod).spec.scheduling_group is not None
    assert member["spec"]["schedulingGroup"]["podGroupName"] == group["metadata"]["name"]
