"""A secret in any field of any object stays out of a bundle, unless the field is one of those listed here."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its C reader is ten times as fast as ruamel's

from gcushare.cli.support_bundle.cut_objects import EVENT, slim_counted, slim_event, slim_pod, slim_words
from gcushare.cluster.programs import SEEN_NODE, SEEN_POD
from gcushare.vendors import ENFLAME

Document = dict[str, Any]

POD: Document
NODE: Document
SEEN: Document
POD, NODE, SEEN = yaml.safe_load_all((Path(__file__).parents[1] / "recorded" / "full-objects.yaml").read_text())
"""As an API server may send them, with every field that has been seen to hold text."""
NAME_LIKE = "hunter2-prod"
MAPS = ("labels", "annotations", "nodeSelector", "overhead", "capacity", "allocatable", "limits", "requests")
"""Fields whose keys people choose."""

_META = {
    *("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels.app.kubernetes.io/name"),
    *(f"metadata.ownerReferences[].{name}" for name in ("apiVersion", "kind", "name", "uid")),
}


CONTAINERS = ("spec.initContainers[]", "spec.containers[]")
_SPEC = {
    *("spec.nodeName", "spec.schedulerName", "spec.nodeSelector.kubernetes.io/hostname"),
    *("spec.schedulingGates[].name", "spec.tolerations[].key"),
    *(f"{part}.{name}" for part in CONTAINERS for name in ("name", "image", "ports[].name")),
}
"""What of a pod's spec is a name that people choose."""
FLAG_VALUES = {f"{part}.args[]" for part in CONTAINERS}


def slim_users_pod(pod: Document) -> Document:
    return slim_pod(SEEN_POD.read(json.dumps(pod).encode()), is_ours=False)


def slim_our_pod(pod: Document) -> Document:
    return slim_pod(SEEN_POD.read(json.dumps(pod).encode()), is_ours=True)


def slim_any_node(node: Document) -> Document:
    return slim_counted(SEEN_NODE.read(json.dumps(node).encode()))


def slim_any_event(event: Document) -> Document:
    return slim_event(EVENT.read(json.dumps(event).encode()))


_STATUS = {
    *("status.nominatedNodeName", "status.podIP"),
    *(f"status.resourceClaimStatuses[].{name}" for name in ("name", "resourceClaimName")),
    *(f"status.{part}[].name" for part in ("containerStatuses", "initContainerStatuses")),
}
NAMES: list[Any] = [
    pytest.param(POD, slim_users_pod, _META | _SPEC | _STATUS, id="pod"),
    pytest.param(POD, slim_our_pod, _META | _SPEC | FLAG_VALUES | _STATUS, id="our pod"),
    pytest.param(
        NODE,
        slim_any_node,
        (_META - {"metadata.labels.app.kubernetes.io/name"})
        | {"metadata.labels.kubernetes.io/hostname", "spec.taints[].key", "status.addresses[].address"},
        id="node",
    ),
    pytest.param(
        SEEN,
        slim_any_event,
        {
            *("source.component", "source.host", "reportingComponent", "reportingInstance"),
            *(f"involvedObject.{name}" for name in ("apiVersion", "kind", "namespace", "name", "uid")),
        },
        id="event",
    ),
]


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every text of a document: the name of its field, and what holds it under which key."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        name = f"{at}.{key}".removeprefix(".") if isinstance(value, dict) else f"{at}[]"
        if isinstance(inner, dict | list):
            yield from leaves(inner, name)
        elif isinstance(inner, str):
            yield name, value, key


def survivors(document: Document, slim: Callable[[Document], Document]) -> set[str]:
    """The fields in which a secret stays."""
    changed, found = copy.deepcopy(document), set()
    for name, holder, key in leaves(changed):
        before, holder[key] = holder[key], NAME_LIKE
        if "hunter2" in str(slim(changed)).lower():
            found.add(name)
        holder[key] = before
    return found


@pytest.mark.parametrize(("document", "slim", "names"), NAMES)
def test_only_names_survive_and_only_in_these_fields(
    document: Document, slim: Callable[[Document], Document], names: set[str]
) -> None:
    assert survivors(document, slim) == names


@pytest.mark.parametrize(("document", "slim", "names"), NAMES)
def test_a_field_that_no_one_knows_yet_stays_out_at_every_level(
    document: Document, slim: Callable[[Document], Document], names: set[str]
) -> None:
    def grow(value: Any, of: str = "") -> Any:
        match value:
            case dict() if of in MAPS:
                return value
            case dict():
                return {key: grow(inner, key) for key, inner in value.items()} | {"addedLater": {"text": NAME_LIKE}}
            case list():
                return [*map(grow, value), *([{"addedLater": NAME_LIKE}] if isinstance(value[0], dict) else [])]
            case _:
                return value

    kept = json.dumps(slim(grow(document)))
    assert "addedLater" not in kept
    assert NAME_LIKE not in kept


def test_keys_that_others_choose_stay_out() -> None:
    pod = copy.deepcopy(POD)
    for part in ("labels", "annotations"):
        pod["metadata"][part][f"{NAME_LIKE}/key"] = "x"
    pod["spec"]["containers"][0]["env"].append({"name": "TOKEN_hunter2", "value": "x"})
    slim = slim_our_pod(pod)
    assert "hunter2" not in json.dumps(slim)
    assert slim["metadata"]["labelsLeftOut"] == 2
    assert slim["spec"]["containers"][0]["environment"] == {"known": ["ENFLAME_VISIBLE_DEVICES"], "others": 2}


def test_an_inventory_stays_readable_and_gives_no_free_text() -> None:
    node = copy.deepcopy(NODE)
    annotations = node["metadata"]["annotations"]
    inventory = json.loads(annotations[ENFLAME.inventory_annotation])
    inventory["cards"][0] |= {"reason": "hunter2", "serial": "hunter2", "note": "hunter2"}
    annotations[ENFLAME.inventory_annotation] = json.dumps(inventory | {"note": "hunter2", "driver": "hunter2"})
    kept = slim_any_node(node)["metadata"]["annotations"][ENFLAME.inventory_annotation]
    assert json.loads(kept)["cards"][0]["units"] == 16
    assert "hunter2" not in kept


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["gcushare", "--node-name=n1", "--cards", "hunter2 x"], ["gcushare", "--node-name=n1", "--cards"]),
        (["/usr/bin/python3", "-m", "hunter2"], ["/usr/bin/python3", "-m"]),
        (["--api-token=hunter2", "--password", "hunter2", "-v=4"], ["-v=4"]),
        (["sh", "-c", "export A=hunter2"], []),
    ],
)
def test_a_command_line_keeps_flags_without_secrets_and_free_text(words: list[str], kept: list[str]) -> None:
    left_out = len(words) - len(kept)
    assert slim_words(words) == [*kept, f"({left_out} left out)"]
