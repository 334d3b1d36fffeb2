"""A secret in any field of any object stays out of a bundle, unless the field is one of those listed here."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gcushare.cli.support_bundle.cut_objects import (
    EVENT,
    slim_event,
    slim_node,
    slim_pod,
    slim_words,
)
from gcushare.cluster.programs import SEEN_NODE, SEEN_POD
from gcushare.vendors import ENFLAME
from tests.unit import full_objects
from tests.unit.full_objects import Document

Path = tuple[str | int, ...]

NAME_LIKE = "hunter2-prod"
MAPS = ("labels", "annotations", "nodeSelector", "overhead", "capacity", "allocatable", "limits", "requests")
"""Fields whose keys people choose."""

_META = {
    *("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels.app.kubernetes.io/name"),
    *(f"metadata.ownerReferences[].{name}" for name in ("apiVersion", "kind", "name", "uid")),
}


def spec_names(prefix: str, *, is_ours: bool) -> set[str]:
    """What of a pod's spec is a name that people choose."""
    names = ("nodeName", "schedulerName")
    of_container = ("name", "image", "ports[].name")
    return {
        *(f"{prefix}{name}" for name in names),
        *(f"{prefix}{part}[].{name}" for part in ("initContainers", "containers") for name in of_container),
        f"{prefix}nodeSelector.kubernetes.io/hostname",
        f"{prefix}schedulingGates[].name",
        f"{prefix}tolerations[].key",
        # The values of flags.
        *((f"{prefix}{part}[].args[]" for part in ("initContainers", "containers")) if is_ours else ()),
    }


def slim_users_pod(pod: Document) -> Document:
    return slim_pod(SEEN_POD.read(json.dumps(pod).encode()), is_ours=False)


def slim_our_pod(pod: Document) -> Document:
    return slim_pod(SEEN_POD.read(json.dumps(pod).encode()), is_ours=True)


def slim_any_node(node: Document) -> Document:
    return slim_node(SEEN_NODE.read(json.dumps(node).encode()))


def slim_any_event(event: Document) -> Document:
    return slim_event(EVENT.read(json.dumps(event).encode()))


_STATUS = {
    *("status.nominatedNodeName", "status.podIP"),
    *(f"status.resourceClaimStatuses[].{name}" for name in ("name", "resourceClaimName")),
    *(f"status.{part}[].name" for part in ("containerStatuses", "initContainerStatuses")),
}
NAMES: list[Any] = [
    pytest.param(full_objects.POD, slim_users_pod, _META | spec_names("spec.", is_ours=False) | _STATUS, id="pod"),
    pytest.param(full_objects.POD, slim_our_pod, _META | spec_names("spec.", is_ours=True) | _STATUS, id="our pod"),
    pytest.param(
        full_objects.NODE,
        slim_any_node,
        (_META - {"metadata.labels.app.kubernetes.io/name"})
        | {"metadata.labels.kubernetes.io/hostname", "spec.taints[].key", "status.addresses[].address"},
        id="node",
    ),
    pytest.param(
        full_objects.EVENT,
        slim_any_event,
        {
            *("source.component", "source.host", "reportingComponent", "reportingInstance"),
            *(f"involvedObject.{name}" for name in ("apiVersion", "kind", "namespace", "name", "uid")),
        },
        id="event",
    ),
]


def leaves(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where every text of a document stands."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from leaves(inner, (*at, key))
        case list():
            for index, inner in enumerate(value):
                yield from leaves(inner, (*at, index))
        case str():
            yield at


@contextmanager
def planted(document: Document, at: Path, secret: str) -> Iterator[None]:
    """Have a secret at one place of a document."""
    holder: Any = document
    for step in at[:-1]:
        holder = holder[step]
    before, holder[at[-1]] = holder[at[-1]], secret
    try:
        yield
    finally:
        holder[at[-1]] = before


def words_of(path: Path) -> str:
    text = ""
    for step in path:
        text += "[]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def survivors(document: Document, slim: Callable[[Document], Document], secret: str) -> set[str]:
    changed, found = copy.deepcopy(document), set()
    for path in list(leaves(changed)):
        with planted(changed, path, secret):
            if "hunter2" in str(slim(changed)).lower():
                found.add(words_of(path))
    return found


@pytest.mark.parametrize(("document", "slim", "names"), NAMES)
def test_only_names_survive_and_only_in_these_fields(
    document: Document, slim: Callable[[Document], Document], names: set[str]
) -> None:
    assert survivors(document, slim, NAME_LIKE) == names


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

    grown = grow(document)
    kept = json.dumps(slim(grown))
    assert "addedLater" not in kept
    assert NAME_LIKE not in kept


def test_keys_that_others_choose_stay_out() -> None:
    pod = copy.deepcopy(full_objects.POD)
    for part in ("labels", "annotations"):
        pod["metadata"][part][f"{NAME_LIKE}/key"] = "x"
    pod["spec"]["containers"][0]["env"].append({"name": "TOKEN_hunter2", "value": "x"})
    slim = slim_our_pod(pod)
    assert "hunter2" not in json.dumps(slim)
    assert slim["metadata"]["labelsLeftOut"] == 2
    assert slim["spec"]["containers"][0]["environment"] == {"known": ["ENFLAME_VISIBLE_DEVICES"], "others": 2}


def test_an_inventory_stays_readable_and_gives_no_free_text() -> None:
    node = copy.deepcopy(full_objects.NODE)
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
