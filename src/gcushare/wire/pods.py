"""Reads a Pod object: its request, its author's options, and the cards that it holds.

The extender, the plugin and the inspect tables all read pods through this module, so that they count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import KubeletCalls
from gcushare.core.quantities import parse_count
from gcushare.core.requests import (
    CardRequest,
    CardSelection,
    ContainerKind,
    ContainerResources,
    PodRequest,
    parse_pod_request,
)
from gcushare.core.units import parse_memory_unit
from gcushare.core.whole_cards import CLOSE
from gcushare.core.wording import counted
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.annotations import PodRecord, decode_record, is_own_record
from gcushare.wire.objects import Container, ObjectMeta, Pod
from gcushare.wire.pod_options import NO_OPTIONS, PodOptions, apart_group, memory_limit, pod_options, recorded_apart

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod's mirror. The API server refuses to change it, and the kubelet runs no other pod."""
MACHINE_UID = "kubernetes.io/config.hash"
"""Annotation of a static pod's mirror: the uid by which the kubelet knows the pod. The mirror has another one."""

_MAX_NAME = 253
"""Characters of a name in Kubernetes."""
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds nothing any more. A pod that is being deleted holds its cards until it is gone."""


def is_mirror(annotations: Mapping[str, str]) -> bool:
    """Whether a pod passes for the mirror of a static pod.

    Any author may write that, so it counts for nothing itself: what a static pod holds is what its kubelet shows.
    """
    return MIRROR in annotations


def pod_ref(pod: Pod) -> PodRef:
    meta, priority = pod.metadata, pod.spec.priority or 0
    return PodRef(meta.uid, meta.namespace, meta.name, meta.creation_timestamp or "", priority, controller_of(meta))


def controller_of(meta: ObjectMeta) -> str:
    """The controller that made an object, such as ``ReplicaSet web-5d8``; "" if none did.

    Cut as real names are: the API server takes any text from an object's author, up to megabytes.
    """
    found = next((each for each in meta.owner_references if each.controller), None)
    return "" if found is None else f"{found.kind[:_MAX_NAME]} {found.name[:_MAX_NAME]}"


def pod_request(
    pod: Pod, vendor: Vendor, *, options: PodOptions | None = None, is_bound: bool = False
) -> PodRequest | None:
    """Read a pod's request with its card selection; None if it requests no card of this vendor, or is a mirror.

    ``options`` replace those in the pod's annotations. For ``is_bound`` see ``parse_pod_request``.

    Raises:
        RemoteContractError: a quantity or an option is malformed.
        Refused: the request is well-formed, but this system does not grant it.
    """
    found = pod_request_and_options(pod, vendor, options=options, is_bound=is_bound)
    return None if found is None else found[0]


def current_request(pod: Pod, vendor: Vendor) -> PodRequest | None:
    """A pod's request as it counts now. The options of a bound pod are ignored, even if its author changes them.

    Raises:
        RemoteContractError, Refused: as ``pod_request``.
    """
    options = NO_OPTIONS if pod.is_bound else None
    return pod_request(pod, vendor, options=options, is_bound=pod.is_bound)


def readable_request(pod: Pod, vendor: Vendor) -> tuple[PodRequest | None, str]:
    """A pod's request as far as it can be read, and what is wrong with it; without options that cannot be read."""
    problem = ""
    for options in (None, NO_OPTIONS):
        try:
            return pod_request(pod, vendor, options=options, is_bound=pod.is_bound), problem
        except (RemoteContractError, Refused) as error:
            problem = problem or str(error)
    return None, problem


def kubelet_calls(pod: Pod, request: PodRequest) -> KubeletCalls:
    """What the kubelet will ask for a pod with this request, which has the options of the pod's author."""
    return KubeletCalls.of(
        request, shares_compute=pod.metadata.annotations.get(keys.COMPUTE_SHARE) == keys.PROPORTIONAL
    )


def starting_calls(pod: Pod, vendor: Vendor) -> KubeletCalls | None:
    """The calls of the kubelet that are still to come for a bound pod; None if it has admitted the pod.

    A pod without a readable request is admitted as well: what it asks for cannot be compared.
    """
    if pod.status.start_time is not None or pod.is_being_deleted or is_finished(pod):
        return None
    request, _ = readable_request(pod, vendor)
    return None if request is None else kubelet_calls(pod, request)


def pod_request_and_options(
    pod: Pod, vendor: Vendor, *, options: PodOptions | None = None, is_bound: bool = False
) -> tuple[PodRequest, PodOptions] | None:
    """As ``pod_request``, together with the pod's options.

    Raises:
        RemoteContractError, Refused: as ``pod_request``.
    """
    if is_mirror(pod.metadata.annotations) or not names_resources(pod, vendor):
        return None
    init, app = pod.spec.init_containers, pod.spec.containers
    containers = [*(_resources(c, init_kind(c)) for c in init), *(_resources(c, ContainerKind.APP) for c in app)]
    apart = None
    if options is None:
        options = pod_options(pod.metadata.annotations)
        apart = recorded_apart(pod, vendor) if pod.is_bound else apart_group(pod, options.apart)
    cards = options.cards
    if cards > 1 and not vendor.multi_card_runtime:
        raise Refused(
            f"annotation {keys.CARDS}={cards} is not granted: the container runtime of {vendor.name} supports one card "
            "per container; remove the annotation"
        )
    request = parse_pod_request(
        containers,
        vendor,
        cards_per_pod=cards,
        selection=options.selection,
        memory_limit=options.memory_limit,
        whole_policy=options.whole_card_policy or CLOSE,
        per_gib=parse_memory_unit(options.memory_unit).per_gib if options.memory_unit is not None else 0,
        is_bound=is_bound,
    )
    if request is None:
        return None
    if cards > 1 and request.cards.whole:
        raise Refused(
            f"annotation {keys.CARDS}={cards} spreads memory over cards, but the pod requests whole cards; remove the "
            f"annotation and request {vendor.whole_card_resource}: {cards}"
        )
    if not is_bound:
        _check_one_vendor(pod, vendor, request.cards)
    if apart is not None and not request.cards.whole:  # No other pod has a part of a whole card.
        selection = replace(request.cards.selection or CardSelection(), apart=apart)
        request = replace(request, cards=replace(request.cards, selection=selection))
    return request, options


def names_resources(pod: Pod, vendor: Vendor) -> bool:
    """Whether a container names a resource of this vendor's cards, even with quantity 0.

    kube-scheduler decides by the name, not by the quantity, whether it calls an extender for the pod.
    """
    names = card_resources(vendor)
    return any(
        name in resources
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for resources in (container.resources.limits, container.resources.requests)
        for name in names
    )


def card_resources(vendor: Vendor) -> tuple[str, ...]:
    """The resources for whose pods kube-scheduler may call the extender."""
    return vendor.memory_resource, vendor.whole_card_resource, vendor.claims.extender_resource


def is_finished(pod: Pod) -> bool:
    """Whether the pod has ended, so that it holds nothing."""
    return pod.status.phase in FINISHED_PHASES


def has_stopped(pod: Pod) -> bool:
    """Whether no container of the pod runs or will be started again.

    Kubelets before 1.27 delete a pod without ever reporting a final phase. Then the container states decide. So they do
    if a controller wrote the phase: PodGC writes ``Failed`` for a node that it takes for lost, whatever runs there.
    """
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    if is_finished(pod):
        return all(each.state.running is None for each in statuses)
    return pod.is_being_deleted and bool(statuses) and all(each.state.terminated is not None for each in statuses)


def _never_starts(pod: Pod) -> bool:
    """Whether a bound pod was deleted for good before a kubelet admitted it: a finalizer may keep its object.

    Not by its record, which its author may write where no policy forbids it.
    """
    is_over = pod.is_being_deleted and pod.metadata.deletion_grace_period_seconds == 0
    return is_over and pod.status.start_time is None


def deletion_time_s(pod: Pod) -> float | None:
    """The time by which a pod must have ended, grace period included, in seconds since the epoch.

    None if the pod is not being deleted. 0.0 if the time is unreadable, so that nothing waits for such a pod.
    """
    text = pod.metadata.deletion_timestamp
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def pod_record(pod: Pod, vendor: Vendor) -> PodRecord | None:
    """The record of a bound pod. None for an unbound pod, whose author may have written it, and for another pod's.

    Raises:
        RemoteContractError: the record is malformed.
    """
    meta = pod.metadata
    is_own = is_own_record(meta.annotations, meta.uid)
    return decode_record(vendor, meta.annotations) if pod.spec.node_name and is_own else None


def pod_assignment(pod: Pod, vendor: Vendor) -> Assignment | None:
    """The cards that a bound pod holds which may run; None if it holds none.

    The cards come from the record. The units come from the pod's spec, which is immutable: the kubelet gives the pod
    this amount, even if we would not have granted it. A pod without a record (another scheduler bound it and the plugin
    has not recorded it yet) gets an assignment without grants, see ``unplaced_assignment``. If it requests whole cards,
    the result is None, because another plugin may serve that resource.

    Raises:
        RemoteContractError, Refused: the request or the record cannot be read.
    """
    # A finished pod counts no more, whatever runs: its node may be lost, so that no kubelet writes that it has stopped.
    # What is closed on a node that is not lost its plugin publishes, as for a pod deleted by force.
    if not pod.spec.node_name or is_finished(pod) or has_stopped(pod) or _never_starts(pod):
        return None
    # Options of a bound pod are ignored: an author who edits them must not make the pod hold less than it does.
    request = pod_request(pod, vendor, options=NO_OPTIONS, is_bound=True)
    if request is None:
        return None
    record = pod_record(pod, vendor)
    if record is None:
        return None if request.cards.whole else unplaced_assignment(pod, vendor)
    if not request.cards.whole:
        shares = record.units_by_card(request.total_units)
        grants = tuple(CardGrant(index, units) for index, units in shares.items())
    elif len(record.card_indexes) == request.cards.cards:
        grants = tuple(CardGrant(index, record.card_units, whole=True) for index in record.card_indexes)
    else:
        raise RemoteContractError(
            f"the record names {counted(len(record.card_indexes), 'whole card')}, but the pod requests "
            f"{request.cards.cards}"
        )
    return Assignment(
        pod_ref(pod),
        pod.spec.node_name,
        grants,
        record.assigned,
        record.assign_time_ns,
        limit=memory_limit(pod.metadata.annotations, request.cards),
        apart=None if request.cards.whole else recorded_apart(pod, vendor),
    )


def unplaced_assignment(pod: Pod, vendor: Vendor) -> Assignment:
    """The assignment of a bound pod whose card is unknown: no grants, and the units that it will have on each card.

    The units are divided over several cards if the pod's option says so, as in the plugin. They are 0 if the request
    cannot be read.
    """
    request, _ = readable_request(pod, vendor)
    units = request.cards.units if request is not None else 0
    return Assignment(pod_ref(pod), pod.spec.node_name, (), unplaced=units, apart=recorded_apart(pod, vendor))


def resource_asked(request: CardRequest, vendor: Vendor) -> str:
    """The resource by which a pod asks for cards."""
    return vendor.whole_card_resource if request.whole else vendor.memory_resource


def _check_one_vendor(pod: Pod, vendor: Vendor, request: CardRequest) -> None:
    """Check that a pod asks for memory of no other vendor's cards: its node is chosen for the cards of one.

    Raises:
        Refused: it does.
        RemoteContractError: a quantity is malformed.
    """
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for other in VENDORS:
            if other.name != vendor.name and parse_count(container.resources.limits.get(other.memory_resource, 0)):
                raise Refused(
                    f"the pod asks for {resource_asked(request, vendor)} and for {other.memory_resource}, but a pod "
                    "holds cards of one vendor; make a pod for each"
                )


def _resources(container: Container, kind: ContainerKind) -> ContainerResources:
    return ContainerResources(container.name, kind, container.resources.limits, container.resources.requests)


def init_kind(container: Container) -> ContainerKind:
    """Whether an init container is a sidecar, which keeps running, or ends before the app containers start."""
    return ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT
