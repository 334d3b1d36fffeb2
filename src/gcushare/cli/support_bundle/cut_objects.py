"""Kubernetes objects in a bundle: the fields that their structs declare, their texts cut to names and forms; pure.

The structs are those by which the doctor reads the objects. What no struct declares is not read, so that a field that a
later Kubernetes adds reveals nothing. People's own labels and annotations, values
of variables, command lines except flags of our programs, and messages are removed; their numbers stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gcushare.cli.support_bundle.redact import ELLIPSIS, is_secret_anywhere, is_secret_name
from gcushare.cluster.programs import ProgramKind, ReportingNode, SeenPod
from gcushare.core.errors import RemoteContractError
from gcushare.core.placement import POLICIES
from gcushare.core.whole_cards import WHOLE_CARD_POLICIES
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.vendors import VENDORS
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import OVER_USE_NOTE, record_keys
from gcushare.wire.contracts import VENDOR_LABEL
from gcushare.wire.nodes import INVENTORY
from gcushare.wire.objects import Event, KubeObject
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

JsonObject = dict[str, Any]


class _Repeats(KubeObject, frozen=True):
    count: Int | None = None
    last_observed_time: str | None = None


class BundleEvent(Event, frozen=True):
    """An Event as a bundle shows it: what happened to which object, how often, when."""

    event_time: str | None = None
    series: _Repeats = _Repeats()

    @property
    def last_seen(self) -> str:
        """When it happened last, as Kubernetes writes times; "" if it does not say.

        One of events.k8s.io that repeats says so in its series alone: its ``event_time`` is when it began.
        """
        return max(each or "" for each in (self.last_timestamp, self.event_time, self.series.last_observed_time))


EVENT = BoundedJsonDecoder(BundleEvent, "an Event", limit_bytes=OBJECT_BYTES, max_depth=None)

ENVIRONMENT = {CONTAINER_BYTES} | frozenset(
    name
    for vendor in VENDORS
    for name in (
        vendor.environment.visible,
        vendor.environment.card_index,
        vendor.environment.card_units,
        vendor.environment.pod_units,
        vendor.environment.container_units,
    )
)
"""Variables that the card of a container follows from; that a pod's author sets one is worth knowing."""

_LABELS = frozenset(
    (
        *(vendor.label_key for vendor in VENDORS),
        VENDOR_LABEL,
        *(f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "version", "managed-by")),
        *("k8s-app", "component", "tier", "helm.sh/chart", "controller-revision-hash", "pod-template-hash"),
        *(f"kubernetes.io/{name}" for name in ("hostname", "os", "arch")),
        *(f"topology.kubernetes.io/{name}" for name in ("region", "zone")),
        *(f"node-role.kubernetes.io/{name}" for name in ("control-plane", "master", "worker")),
        "node.kubernetes.io/instance-type",
    )
)
_ANNOTATIONS = frozenset(
    (
        *(key for vendor in VENDORS for key in (*record_keys(vendor), vendor.cordon_annotation)),
        *(keys.CARD_UUID, keys.CARD_MODE, keys.ROOM_FOUND, keys.COMPUTE_SHARE, keys.CORRECTED, keys.RECORDED_UID),
        *(keys.NODE_POLICY, keys.CARD_POLICY, keys.WHOLE_CARD_POLICY, keys.IDLE_SINCE, keys.WHEN_IDLE),
        *(keys.USE_CARDS, keys.AVOID_CARDS, keys.CARDS, keys.CARDS_LINKED, keys.APART, keys.MEMORY_LIMIT),
        *("kubernetes.io/config.source", "kubernetes.io/config.seen", "kubernetes.io/config.mirror"),
    )
)
_DOCUMENTS: dict[str, BoundedJsonDecoder[Any]] = {keys.OVER_USE: OVER_USE_NOTE} | {
    vendor.inventory_annotation: INVENTORY for vendor in VENDORS
}
"""Annotations that are JSON: of those, too, the fields that their structs declare."""

_OUT = frozenset(
    (
        *("message", "value", "env", "command", "args", "affinity", "topologySpreadConstraints"),
        *("volumes", "volumeMounts", "ephemeralContainers"),
    )
)
"""Fields with texts of people and programs, or with what people select by."""
_NAMES = frozenset(
    (
        *("name", "namespace", "uid", "kind", "apiVersion", "image", "key", "address", "podIP"),
        *("nodeName", "nominatedNodeName", "schedulerName"),
        *("resourceClaimName", "resourceClaimTemplateName", "podGroupName"),
        *("component", "host", "reportingComponent", "reportingInstance", "pod", "uuid", "link"),
    )
)
"""Fields with names of objects and addresses: what people call their things is part of every report."""
_NAME = re.compile(r"[A-Za-z0-9_./:@-]{0,512}", re.ASCII)
_TITLES = {
    "model": re.compile(r"[A-Za-z0-9][\w .()/+-]{0,63}", re.ASCII),
    "osImage": re.compile(r"[A-Z]\w{0,40} [\w .()/+-]{0,79}", re.ASCII),
}
"""Fields whose texts have blanks, which only drivers and kubelets write."""
_FORM = re.compile(
    r"[A-Z][A-Za-z./-]{0,127}|"  # one word in CamelCase, as the API's conventions want reasons
    r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)|"
    r"[+-]?\d{1,20}(?:\.\d{1,12})?(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?|"
    r"(?:[a-z-]{1,20}://)?v?\d[\w.+~-]{0,79}|"  # a version
    r"(?:\d{1,3}|[A-Z]{2,8}-[0-9A-Fa-f-]{1,40})"  # cards
    r"(?:(?:->| ?, ?)(?:\d{1,20}|[A-Z]{2,8}-[0-9A-Fa-f-]{1,40})){0,31}|"
    r"[0-9A-Fa-f:.-]{1,64}|",  # addresses of PCI, hashes, uids
    re.ASCII,
)
_WORDS = frozenset(
    (
        *("true", "false", "memory", "whole", "claims", "amd64", "arm64", "file", "http", "api", keys.PROPORTIONAL),
        *(keys.MODE_WHOLE, *POLICIES, *WHOLE_CARD_POLICIES),
    )
)
_FLAG = re.compile(r"--[a-z][a-z0-9-]{0,63}|-v")
_FLAG_VALUE = re.compile(r"[\w./:,=-]{0,512}", re.ASCII)
_COMMAND_WORDS = frozenset(
    {*(program.value for program in ProgramKind), "gcushare", "python", "python3", "-m", "run", "uninstall", "apply"}
)


def slim_event(event: BundleEvent) -> JsonObject:
    """An Event without its message, and without its own name, which says nothing."""
    slim: JsonObject = _cut(msgspec.to_builtins(event))
    return {name: part for name, part in slim.items() if name not in ("metadata", "apiVersion", "kind")}


def slim_pod(pod: SeenPod, *, is_ours: bool) -> JsonObject:
    """A pod; settings only of our own programs."""
    slim = slim_counted(pod)
    for part, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers)):
        for shown, container in zip(slim["spec"].get(part, ()), containers, strict=False):
            if is_ours:
                words = {"command": container.command, "args": container.args}
                shown |= {name: slim_words(found) for name, found in words.items() if found}
            if container.env:
                known = [each.name for each in container.env if each.name in ENVIRONMENT]
                shown["environment"] = {"known": known, "others": len(container.env) - len(known)}
    return slim


def secrets_of(pod: SeenPod) -> Iterator[str]:
    """Values in a pod's environment that are secret by their names; its log may contain them too."""
    for container in pod.containers():
        yield from (each.value for each in container.env if is_secret_anywhere(each.name, each.value))


def slim_words(words: Sequence[str]) -> list[str]:
    """Reduce a command line to program names and to flags, but for those with a secret's name or a value of free text.

    Only for programs that refuse flags which they do not know.
    """
    kept = [word for word, before in zip(words, ["", *words], strict=False) if _is_kept(word, before)]
    left_out = len(words) - len(kept)
    return [*kept, f"({left_out} left out)"] if left_out else kept


def _is_kept(word: str, before: str) -> bool:
    name, _, value = word.partition("=")
    if not word.startswith("-"):
        name, value = (before, word) if before.startswith("-") and "=" not in before else ("", "")
    if _FLAG.fullmatch(name) and not is_secret_name(name):
        return _FLAG_VALUE.fullmatch(value) is not None
    return word.rpartition("/")[2] in _COMMAND_WORDS


def slim_counted(found: ReportingNode | SeenPod) -> JsonObject:
    """Cut an object, and add how many labels and annotations were removed; their existence explains much."""
    slim: JsonObject = _cut(msgspec.to_builtins(found))
    meta = slim.setdefault("metadata", {})
    for name, before in (("labels", found.metadata.labels), ("annotations", found.metadata.annotations)):
        if left_out := len(before) - len(meta.get(name, ())):
            meta[f"{name}LeftOut"] = left_out
    return slim


def _cut(value: Any, of: str = "") -> Any:
    """Cut what stands in the field ``of``."""
    match value:
        case str():
            form = _NAME if of in _NAMES else _TITLES.get(of, _FORM)
            return value if form.fullmatch(value) or value in _WORDS else ELLIPSIS
        case list() | tuple():
            return [_cut(each, of) for each in value]
        case dict() if of in ("labels", "nodeSelector"):
            return {key: _cut(text, "name") for key, text in value.items() if key in _LABELS}
        case dict() if of == "annotations":
            found = {key: _annotation(key, text) for key, text in value.items()}
            return {key: text for key, text in found.items() if text is not None}
        case dict():
            fields = ((str(key), each) for key, each in value.items())
            return {key: _cut(each, key) for key, each in fields if key not in _OUT and _NAME.fullmatch(key)}
        case _:
            return value


def _annotation(key: str, text: str) -> str | None:
    """What is kept of an annotation; None for one that is removed."""
    if (decoder := _DOCUMENTS.get(key)) is not None:
        try:
            return json.dumps(_cut(msgspec.to_builtins(decoder.read(text), str_keys=True)), separators=(",", ":"))
        except RemoteContractError:
            return None
    return str(_cut(text)) if key in _ANNOTATIONS else None
