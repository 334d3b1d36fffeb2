"""The table of what a pod's author may claim has every key and field that a program reads of a pod."""

from __future__ import annotations

import ast
import dataclasses
import re
import typing
from collections.abc import Iterator

import msgspec

import gcushare.cluster.programs
import gcushare.wire.dra.claims
import gcushare.wire.occupants  # noqa: F401 - these modules declare what is read of a pod
from gcushare.vendors import VENDORS
from gcushare.vendors.neighbours import NEIGHBOURS
from gcushare.wire.objects import Pod
from tests.documents import ROOT, guide

SOURCE = ROOT / "src" / "gcushare"
KEY = re.compile(r"[a-z0-9][a-z0-9.-]*\.[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]*")
API_VERSION = re.compile(r".*/v[0-9]+((alpha|beta)[0-9]+)?")
OF_OTHER_OBJECTS = re.compile(
    r"(helm\.sh|meta\.helm\.sh|node-role\.kubernetes\.io|node\.kubernetes\.io|pod-security\.kubernetes\.io)/.*"
    r"|client\.authentication\.k8s\.io/exec|resource\.kubernetes\.io/pcieRoot|kubernetes\.io/hostname|app\.kubernetes\.io/managed-by"
    r"|gcushare\.io/(serve|node-group|claims|claims-order|scale-down-disabled)"
    r"|cluster-autoscaler\.kubernetes\.io/(scale-down-disabled|gpu-.*)|startup-taint\.cluster-autoscaler\..*"
    r"|(aliyun\.accelerator|k8s\.amazonaws\.com|cloud\.google\.com|cloud\.tencent\.com|kubernetes\.azure\.com)/.*"
    r"|node\.kubernetes\.ovhcloud\.com/gpu"
)
"""Labels and annotations of nodes, namespaces, templates and our own objects; a kubeconfig's extension."""
SHOWN_ALONE = re.compile(
    r"(beta|batch|statefulset)\.kubernetes\.io/.*|kubernetes\.io/config\.(seen|source)"
    r"|(enflame|aliyun)\.gcushare\.io/claimed-memory"
)
"""Left out of what is shown, or kept in a support bundle as it is; or a resource of a claim's pod."""
BY_THE_SERVER = ("metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp", "status")
"""What the API server and the kubelet write: who may edit pods cannot write it."""


def table() -> set[str]:
    """The words in the first column of the table; that the Chinese page has them too is seen in test_documents.py."""
    section = guide("security.md").text.partition("#### What an author may claim")[2].partition("\n### ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def keys_in(text: str) -> set[str]:
    """The keys of annotations and labels in a program's text."""
    found = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return {each for each in found if isinstance(each, str) and KEY.fullmatch(each) and not API_VERSION.fullmatch(each)}


def not_of_pods() -> set[str]:
    """Resources, and what is on Nodes."""
    found = {
        key
        for each in VENDORS
        for key in (
            *(each.memory_resource, each.count_resource, each.whole_card_resource, each.claims.extender_resource),
            *(each.inventory_annotation, each.cordon_annotation, each.label_key),
        )
    }
    return found | {key for each in NEIGHBOURS for key in (*each.resources, *each.annotations)}


def fields_of(kind: object, path: str = "") -> Iterator[str]:
    """The fields of a decoded object that have no parts, as paths on the wire."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for each in msgspec.structs.fields(kind):
            inner = f"{path}.{each.encode_name}" if path else each.encode_name
            yield from fields_of(each.type, inner)
        return
    parts = [part for part in typing.get_args(kind) if part not in (type(None), ...)]
    structs = [part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)]
    for part in structs:
        yield from fields_of(part, path)
    if not structs:
        yield path


def kinds(kind: type[Pod] = Pod) -> Iterator[type[Pod]]:
    yield kind
    for each in kind.__subclasses__():
        yield from kinds(each)


def missing_fields(of: type[Pod], words: set[str]) -> set[str]:
    paths = {re.sub("spec.(init|ephemeral)Containers", "spec.containers", path) for path in fields_of(of)}
    paths -= {path for path in paths if path.startswith(BY_THE_SERVER)} | {"metadata.annotations"}
    return {path for path in paths if not any(path == word or path.startswith(f"{word}.") for word in words)}


def test_every_key_that_a_program_reads_of_a_pod_is_in_the_table() -> None:
    words, known = table(), not_of_pods()
    read = {key for path in SOURCE.rglob("*.py") for key in keys_in(path.read_text(encoding="utf-8"))}
    read = {key for key in read - known if not OF_OTHER_OBJECTS.fullmatch(key) and not SHOWN_ALONE.fullmatch(key)}
    read |= {key for each in VENDORS for key in dataclasses.astuple(each.record)}
    read |= {key for each in NEIGHBOURS for key in each.pod_annotations}
    assert read - words == set()


def test_every_field_that_a_program_decodes_of_a_pod_is_in_the_table() -> None:
    words = table()
    assert len(list(kinds())) > 1, "the decoders that read more of a pod"
    assert {path for each in kinds() for path in missing_fields(each, words)} == set()
