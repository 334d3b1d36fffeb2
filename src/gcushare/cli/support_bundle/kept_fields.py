"""Which fields of each kind of object go into a bundle, and the form of each; pure.

A shape filters a JSON value: it names every field that is kept, and the form of every text. Fields that no shape names
are removed, so that a field that a later Kubernetes adds reveals nothing.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from gcushare.core.errors import RemoteContractError
from gcushare.core.placement import POLICIES
from gcushare.core.whole_cards import WHOLE_CARD_POLICIES
from gcushare.vendors import VENDORS
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import record_keys
from gcushare.wire.contracts import VENDOR_LABEL
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder


class Left(enum.Enum):
    """What a shape returns for a value that is removed."""

    OUT = "out"


Shape: TypeAlias = Callable[[Any], Any]
"""Returns the part of a value that is kept, or ``Left.OUT``."""


def fields(**allowed: Shape) -> Shape:
    """An object: only these fields, each filtered by its shape. A field named like a keyword ends in _."""
    return members({name.rstrip("_"): shape for name, shape in allowed.items()})


def members(allowed: Mapping[str, Shape]) -> Shape:
    """An object with fields whose names are not Python identifiers."""
    return _object(allowed.get)


def by_name(key: str, shape: Shape) -> Shape:
    """An object with any field names that match the pattern ``key``, such as amounts of resources."""
    known = re.compile(key)
    return _object(lambda name: shape if known.fullmatch(name) else None)


def _object(shape_of: Callable[[str], Shape | None]) -> Shape:
    """An object; ``shape_of`` returns the shape of a field, None for one that is removed."""

    def keep(value: Any) -> Any:
        if not isinstance(value, dict):
            return Left.OUT
        shapes = {str(name): shape_of(str(name)) for name in value}
        kept = {name: shape(value[name]) for name, shape in shapes.items() if shape is not None}
        return {name: part for name, part in kept.items() if part is not Left.OUT}

    return keep


def each(shape: Shape) -> Shape:
    """A list; members of another shape are removed."""

    def keep(value: Any) -> Any:
        if not isinstance(value, list):
            return Left.OUT
        return [part for part in map(shape, value) if part is not Left.OUT]

    return keep


def text(pattern: str) -> Shape:
    known = re.compile(pattern, re.ASCII)

    def keep(value: Any) -> Any:
        return value if isinstance(value, str) and known.fullmatch(value) else Left.OUT

    return keep


def one_of(*words: str) -> Shape:
    return text("|".join(map(re.escape, words)))


def either(*shapes: Shape) -> Shape:
    """The first of these shapes that a value has."""

    def keep(value: Any) -> Any:
        return next((part for part in (shape(value) for shape in shapes) if part is not Left.OUT), Left.OUT)

    return keep


def number(value: Any) -> Any:
    return value if isinstance(value, int | float) else Left.OUT


NAME = text(r"[A-Za-z0-9][\w.:-]{0,252}")
"""A name of an object, a node, a container; what people call their things is part of every report."""
NAMES = either(NAME, text(""))
UID = text(r"[A-Za-z0-9-]{1,64}")
TIME = text(r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d)")
REASON = text(r"[A-Z][A-Za-z./-]{0,127}")
"""One word in CamelCase, as the API's conventions want it; OutOf<resource> has the resource's slash."""
QUANTITY = either(number, text(r"[+-]?\d{1,20}(?:\.\d{1,12})?(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?"))
RESOURCE = r"[A-Za-z0-9][\w./-]{0,316}"
POD = text(RESOURCE)
"""A pod's namespace and name; the name alone of what the kubelet shows without a namespace."""
CLOSED = each(fields(use=one_of("memory", "whole"), pod=POD, until=number))
"""Uses that a card is closed to."""
AMOUNTS = by_name(RESOURCE, QUANTITY)
VERSION = text(r"v?\d[\w.+-]{0,79}")
IMAGE = text(r"[a-z0-9][\w./:-]{0,511}(?:@sha256:[0-9a-f]{64})?")
ADDRESS = text(r"[0-9A-Fa-f.:]{2,45}|None|[a-z0-9][a-z0-9.-]{0,252}")


PLAIN_INVENTORY = BoundedJsonDecoder(dict[str, Any], "the inventory annotation", limit_bytes=ANNOTATION_BYTES)
PLAIN_OVER_USE = BoundedJsonDecoder(dict[str, Any], f"annotation {keys.OVER_USE}", limit_bytes=ANNOTATION_BYTES)

_LABELS: tuple[str, ...] = (
    *(vendor.label_key for vendor in VENDORS),
    VENDOR_LABEL,
    *(f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "part-of", "version", "managed-by")),
    *("k8s-app", "component", "tier", "helm.sh/chart", "controller-revision-hash", "pod-template-hash"),
    *(f"kubernetes.io/{name}" for name in ("hostname", "os", "arch", "metadata.name")),
    *(f"topology.kubernetes.io/{name}" for name in ("region", "zone")),
    *(f"node-role.kubernetes.io/{name}" for name in ("control-plane", "master", "worker")),
    "node.kubernetes.io/instance-type",
)
_CARD = r"(?:\d{1,3}|[A-Z]{2,8}-[0-9A-Fa-f-]{1,40})"
_CARD_WORDS = text(rf"{_CARD}(?: ?, ?{_CARD}){{0,31}}")
"""Indexes and uuids; a model may be any text."""
_FIGURES = text(r"\d{1,20}(?:,\d{1,20})*")
_INVENTORY = fields(
    version=number,
    unit=text(r"[\w.]{1,8}"),
    driver=VERSION,
    modes=each(one_of("memory", "whole")),
    cards=each(
        fields(
            index=number,
            uuid=NAME,
            memory=number,
            units=number,
            reserved=number,
            health=one_of("Healthy", "Unhealthy"),
            cordoned=number,
            model=text(r"[A-Za-z0-9][\w .-]{0,63}"),
            pci=text(r"[0-9A-Fa-f:.]{1,20}"),
            numa=number,
            link=NAME,
            closed=CLOSED,
        )
    ),
    leftOut=each(fields(index=number, uuid=NAME)),
    unrecorded=each(fields(pod=POD, units=by_name(r"\d{1,4}", number), whole=each(number))),
)
_OVER_USE = fields(
    since=TIME, cards=by_name(r"\d{1,4}", fields(used=number, granted=number, peak=number, limit=number))
)


def _document(decoder: BoundedJsonDecoder[Any], shape: Shape) -> Shape:
    """Text that is a JSON document of ``shape``: what is kept of it, as text again."""

    def keep(value: Any) -> Any:
        try:
            document = decoder.read(value) if isinstance(value, str) else None
        except RemoteContractError:
            return Left.OUT
        kept = shape(document)
        return kept if kept is Left.OUT else json.dumps(kept, separators=(",", ":"))

    return keep


_ANNOTATIONS: Mapping[str, Shape] = {
    **{key: either(_FIGURES, one_of("true", "false")) for vendor in VENDORS for key in record_keys(vendor)},
    **{vendor.inventory_annotation: _document(PLAIN_INVENTORY, _INVENTORY) for vendor in VENDORS},
    **{vendor.cordon_annotation: _CARD_WORDS for vendor in VENDORS},
    keys.CARD_UUID: _CARD_WORDS,
    keys.CARD_MODE: one_of(keys.MODE_WHOLE),
    keys.OVER_USE: _document(PLAIN_OVER_USE, _OVER_USE),
    keys.ROOM_FOUND: TIME,
    keys.COMPUTE_SHARE: one_of(keys.PROPORTIONAL),
    keys.CORRECTED: text(keys.CORRECTION),
    keys.RECORDED_UID: UID,
    keys.NODE_POLICY: one_of(*POLICIES),
    keys.CARD_POLICY: one_of(*POLICIES),
    keys.WHOLE_CARD_POLICY: one_of(*WHOLE_CARD_POLICIES),
    keys.USE_CARDS: _CARD_WORDS,
    keys.AVOID_CARDS: _CARD_WORDS,
    keys.CARDS: _FIGURES,
    keys.MEMORY_LIMIT: _FIGURES,
    "kubernetes.io/config.source": one_of("file", "http", "api"),
    "kubernetes.io/config.seen": TIME,
    "kubernetes.io/config.mirror": text(r"[0-9a-f]{1,64}"),
    "deprecated.daemonset.template.generation": _FIGURES,
    "meta.helm.sh/release-name": NAME,
    "meta.helm.sh/release-namespace": NAME,
}
_LABEL_SHAPES: Mapping[str, Shape] = dict.fromkeys(_LABELS, text(r"(?:[A-Za-z0-9][\w.-]{0,62})?"))
_labels = members(_LABEL_SHAPES)

METADATA = fields(
    name=NAME,
    namespace=NAME,
    uid=UID,
    creationTimestamp=TIME,
    deletionTimestamp=TIME,
    deletionGracePeriodSeconds=number,
    generation=number,
    labels=_labels,
    annotations=members(_ANNOTATIONS),
    ownerReferences=each(fields(apiVersion=NAME, kind=NAME, name=NAME, uid=UID, controller=number)),
)
_CONDITIONS = each(
    fields(
        type=either(NAME, text(r"[\w./-]{1,316}")),
        status=one_of("True", "False", "Unknown"),
        reason=REASON,
        lastTransitionTime=TIME,
        lastHeartbeatTime=TIME,
    )
)
_EFFECT = one_of("NoSchedule", "PreferNoSchedule", "NoExecute", "")
_KEY = text(r"[\w./-]{0,316}")
_SYSTEMS = (
    "AlmaLinux|Alibaba|Amazon|Anolis|CentOS|Container-Optimized|Debian|Fedora|Flatcar|Kylin|Oracle|Red Hat|Rocky|SUSE|"
    "Talos|TencentOS|Ubuntu|UOS|UnionTech|openEuler|openSUSE"
)
NODE = fields(
    metadata=METADATA,
    spec=fields(unschedulable=number, taints=each(fields(key=_KEY, effect=_EFFECT, timeAdded=TIME))),
    status=fields(
        capacity=AMOUNTS,
        allocatable=AMOUNTS,
        conditions=_CONDITIONS,
        addresses=each(fields(type=NAME, address=ADDRESS)),
        nodeInfo=fields(
            kubeletVersion=VERSION,
            kubeProxyVersion=VERSION,
            containerRuntimeVersion=text(r"[a-z-]{1,20}://[\w.+-]{1,60}"),
            kernelVersion=text(r"\d[\w.+~-]{0,79}"),
            osImage=text(rf"(?:{_SYSTEMS})[\w .()/-]{{0,79}}"),
            operatingSystem=one_of("linux", "windows"),
            architecture=one_of("amd64", "arm64", "ppc64le", "s390x", "riscv64", "arm", "386"),
        ),
    ),
)
_RESOURCES = fields(limits=AMOUNTS, requests=AMOUNTS)
_PORTS = each(fields(name=NAMES, containerPort=number, hostPort=number, protocol=one_of("TCP", "UDP", "SCTP")))
_RESTARTS = one_of("Always", "OnFailure", "Never")
CONTAINER = fields(name=NAME, image=IMAGE, resources=_RESOURCES, ports=_PORTS, restartPolicy=_RESTARTS)
POD_SPEC = fields(
    nodeName=NAMES,
    schedulerName=NAMES,
    priority=number,
    priorityClassName=NAMES,
    nodeSelector=_labels,
    tolerations=each(fields(key=_KEY, operator=one_of("Exists", "Equal"), effect=_EFFECT, tolerationSeconds=number)),
    serviceAccountName=NAMES,
    hostNetwork=number,
    hostPID=number,
    runtimeClassName=NAMES,
    restartPolicy=_RESTARTS,
    terminationGracePeriodSeconds=number,
    schedulingGates=each(fields(name=_KEY)),
)
_ENDED = fields(exitCode=number, signal=number, reason=REASON, startedAt=TIME, finishedAt=TIME)
_STATE = fields(waiting=fields(reason=REASON), running=fields(startedAt=TIME), terminated=_ENDED)
_CONTAINER_STATUSES = each(
    fields(name=NAME, ready=number, started=number, restartCount=number, state=_STATE, lastState=_STATE)
)
POD_STATUS = fields(
    phase=REASON,
    reason=REASON,
    conditions=_CONDITIONS,
    startTime=TIME,
    podIP=ADDRESS,
    hostIP=ADDRESS,
    nominatedNodeName=NAMES,
    qosClass=REASON,
    initContainerStatuses=_CONTAINER_STATUSES,
    containerStatuses=_CONTAINER_STATUSES,
)
EVENT = fields(
    type=one_of("Normal", "Warning"),
    reason=REASON,
    count=number,
    firstTimestamp=TIME,
    lastTimestamp=TIME,
    eventTime=TIME,
    series=fields(count=number, lastObservedTime=TIME),
    involvedObject=fields(kind=REASON, namespace=NAME, name=NAME, uid=UID),
    source=fields(component=NAME, host=NAME),
    reportingComponent=text(r"[\w./-]{0,253}"),
)
