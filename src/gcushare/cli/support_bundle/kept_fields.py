"""Which fields of each kind of object go into a bundle, the form of each, and which flags of command lines; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gcushare.cli.support_bundle.shapes import (
    ADDRESS,
    AMOUNTS,
    CLOSED,
    IMAGE,
    NAME,
    NAMES,
    POD,
    REASON,
    TIME,
    UID,
    VERSION,
    Left,
    Shape,
    by_name,
    each,
    either,
    fields,
    members,
    number,
    one_of,
    text,
)
from gcushare.cluster.programs import VENDOR_LABEL, Program
from gcushare.core.errors import RemoteContractError
from gcushare.core.placement import POLICIES, WHOLE_CARD_POLICIES
from gcushare.vendors import VENDORS
from gcushare.wire.annotations import keys
from gcushare.wire.annotations.record import record_keys
from gcushare.wire.untrusted_json import ANNOTATION_BYTES, BoundedJsonDecoder

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
ENVIRONMENT = frozenset(
    name
    for vendor in VENDORS
    for name in (
        vendor.environment.visible,
        vendor.environment.card_index,
        vendor.environment.card_units,
        vendor.environment.pod_units,
        vendor.environment.container_units,
        vendor.environment.container_bytes,
    )
)
"""Variables that the card of a container follows from; that a pod's author sets one is worth knowing."""
_OUR_FLAG_NAMES = """
application-xids bursts card-call-timeout card-count card-library card-policy cards cdi-dir claims config-file
confirm-after context dashboard dashboard-readers device-list-strategy device-plugin-dir driver-dirs dry-run
event-holds extender-service extender-url fail-without-cards files-dir filter-answer h help host-root idle-timeout
ignorable interval kube-api-timeout kube-context kubeconfig kubelet-dir kubelet-message-limit kubernetes-dir
leader-elect lease-duration lease-name lease-namespace lease-renew-deadline lease-retry listen-address listen-port
log-dir log-file-count log-file-size log-format log-level longest-wait-for-containers manifest max-connections
max-request-size memory-limit memory-percent memory-unit mode mps-control mps-fallback mps-root namespace no-claims
no-dry-run no-fail-without-cards no-ignorable no-leader-elect no-memory-percent no-node-order no-pod-use
no-remove-from-node no-restart no-run-mps-daemon no-status no-whole-cards node-name node-order node-policy node-writes
other-systems over-use over-use-exempt over-use-least over-use-looks over-use-pause over-use-tolerance over-use-when
page-size pod-resources-socket pod-use poll-interval print-config proc-root recount-interval recover-after
remove-from-node request-timeout reserve restart run-mps-daemon scheduler-version status timeout tls-ca tls-cert
tls-cert-file tls-client-ca-file tls-key tls-key-file tls-server-name unhealthy-after uninstall-timeout unit
unused-after vendor verbs verbs-certificate-days verbs-client-name verbs-port verbs-reports verbs-secret
verbs-server-name verbs-tls-cert-file verbs-tls-client-ca-file verbs-tls-key-file version wait-for-pod wait-settle
wait-timeout watch-stall watch-timeout weight whole-card-policy whole-cards
"""
_SCHEDULER_FLAG_NAMES = """
authentication-kubeconfig authorization-kubeconfig bind-address config feature-gates kubeconfig leader-elect
leader-elect-resource-name policy-config-file secure-port tls-cert-file tls-private-key-file v
"""
OUR_FLAGS = frozenset(_OUR_FLAG_NAMES.split())
"""Every flag of the programs in the cluster, apart from those declared secret. It is a list of its own, which a test
compares with the declarations: commands for people import none of these programs.
"""
FLAGS = OUR_FLAGS | frozenset(_SCHEDULER_FLAG_NAMES.split())
"""Those, and flags of kube-scheduler, none of which holds a secret."""
FLAG_VALUE = text(r"[\w./:,=-]{0,512}")
COMMAND_WORDS = frozenset(
    {*(program.value for program in Program), "gcushare", "python", "python3", "-m", "run", "uninstall", "apply"}
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
    keys.CORRECTED: text(r"[\d,]{1,64}->[\d,]{1,64}"),
    keys.NODE_POLICY: one_of(*POLICIES),
    keys.CARD_POLICY: one_of(*POLICIES),
    keys.WHOLE_CARD_POLICY: one_of(*WHOLE_CARD_POLICIES),
    keys.USE_CARDS: _CARD_WORDS,
    keys.AVOID_CARDS: _CARD_WORDS,
    keys.CARDS: _FIGURES,
    keys.MEMORY_LIMIT: _FIGURES,
    keys.MEMORY_PERCENT: _FIGURES,
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
