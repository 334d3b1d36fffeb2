"""What a Pod object says to us: its request, its author's options, and the cards that it holds.

The extender, the plugin and the inspect tables all read pods through this module: one accounting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.nodes import Assignment, CardGrant, PodRef
from gcushare.core.placement import POLICIES, WHOLE_CARD_POLICIES
from gcushare.core.requests import (
    STRONGEST,
    CardSelection,
    ContainerKind,
    ContainerResources,
    PodRequest,
    ResourceNames,
    parse_pod_request,
)
from gcushare.core.topology import CLOSE
from gcushare.vendors.vendor import Vendor
from gcushare.wire.annotations import keys
from gcushare.wire.annotations.record import PodRecord, decode_record
from gcushare.wire.objects import Container, Pod

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
"""A pod in one of these phases holds nothing any more; one that is being deleted holds until it is gone."""

MAX_CARDS_PER_POD = 16
_MAX_WORDS = 64
_MAX_WORD = 128
"""Characters of a choice of cards; the indexes of filter keep choices as long as their shape is asked for."""


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What a pod's author asked for by annotation; None leaves it to the extender's settings."""

    node_policy: str | None = None
    card_policy: str | None = None
    whole_card_policy: str | None = None
    selection: CardSelection | None = None
    cards: int = 1


NO_OPTIONS = PodOptions()
_RARE_WISHES = frozenset((keys.NODE_POLICY, keys.CARD_POLICY, keys.WHOLE_CARD_POLICY, keys.USE_CARDS, keys.AVOID_CARDS))


_RESOURCE_NAMES: dict[str, ResourceNames] = {}


def resource_names(vendor: Vendor) -> ResourceNames:
    """The vendor's resources, as the core takes them; made once for each."""
    names = _RESOURCE_NAMES.get(vendor.name)
    if names is None:
        names = _RESOURCE_NAMES[vendor.name] = ResourceNames(
            memory=vendor.memory_resource, count=vendor.count_resource, whole_card=vendor.whole_card_resource
        )
    return names


def pod_ref(pod: Pod) -> PodRef:
    """A pod's identity."""
    meta = pod.metadata
    return PodRef(meta.uid, meta.namespace, meta.name, meta.creation_timestamp or "", pod.spec.priority or 0)


def pod_options(annotations: Mapping[str, str]) -> PodOptions:
    """Read the author's options (our annotations on the pod).

    Raises:
        RemoteContractError: an option is malformed; names the key, the value and what is accepted.
    """
    if _RARE_WISHES.isdisjoint(annotations):
        cards = _cards_option(annotations)
        return NO_OPTIONS if cards == 1 else PodOptions(cards=cards)
    use, avoid = _words(annotations, keys.USE_CARDS), _words(annotations, keys.AVOID_CARDS)
    key, words = (keys.AVOID_CARDS, avoid) if STRONGEST in avoid else (keys.USE_CARDS, use)
    if STRONGEST in words and (len(words) > 1 or words is avoid):
        raise RemoteContractError(
            f"annotation {key}={annotations[key][:80]!r}: {STRONGEST!r} is accepted only in {keys.USE_CARDS}, as its "
            "only entry; list models in order of preference instead"
        )
    return PodOptions(
        node_policy=_policy(annotations, keys.NODE_POLICY, POLICIES),
        card_policy=_policy(annotations, keys.CARD_POLICY, POLICIES),
        whole_card_policy=_policy(annotations, keys.WHOLE_CARD_POLICY, WHOLE_CARD_POLICIES),
        selection=CardSelection(use, avoid) if use or avoid else None,
        cards=_cards_option(annotations),
    )


def pod_request(
    pod: Pod, vendor: Vendor, *, options: PodOptions | None = None, is_bound: bool = False
) -> PodRequest | None:
    """A pod's request, its author's choice of cards included; None when it asks for no card of this vendor.

    ``options``: taken instead of the pod's annotations. ``is_bound``: see ``parse_pod_request``.

    Raises:
        RemoteContractError: a quantity or an option is malformed.
        Refused: well-formed, but nothing that this system grants.
    """
    found = pod_request_and_options(pod, vendor, options=options, is_bound=is_bound)
    return None if found is None else found[0]


def current_request(pod: Pod, vendor: Vendor) -> PodRequest | None:
    """A pod's request as it counts now: once a pod is bound its options are history, whatever its author makes of them.

    Raises:
        RemoteContractError, Refused: as ``pod_request``.
    """
    options = NO_OPTIONS if pod.is_bound else None
    return pod_request(pod, vendor, options=options, is_bound=pod.is_bound)


def pod_request_and_options(
    pod: Pod, vendor: Vendor, *, options: PodOptions | None = None, is_bound: bool = False
) -> tuple[PodRequest, PodOptions] | None:
    """As ``pod_request``, with the options that were read on the way.

    Raises:
        RemoteContractError: a quantity or an option is malformed.
        Refused: well-formed, but nothing that this system grants.
    """
    if not names_resources(pod, vendor):
        return None
    names, init, app = resource_names(vendor), pod.spec.init_containers, pod.spec.containers
    containers = [*(_resources(c, init_kind(c)) for c in init), *(_resources(c, ContainerKind.APP) for c in app)]
    options = pod_options(pod.metadata.annotations) if options is None else options
    if options.cards > 1:
        _check_several_cards(vendor, containers, options.cards)
    request = parse_pod_request(
        containers,
        names,
        cards_per_pod=options.cards,
        selection=options.selection,
        whole_policy=options.whole_card_policy or CLOSE,
        is_bound=is_bound,
    )
    return None if request is None else (request, options)


def names_resources(pod: Pod, vendor: Vendor) -> bool:
    """Whether a container names a resource of this vendor's cards, be it with quantity 0.

    By this, not by the quantity, kube-scheduler decides whether an extender is asked, and whether it binds.
    """
    return any(
        vendor.memory_resource in resources or vendor.whole_card_resource in resources
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for resources in (container.resources.limits, container.resources.requests)
    )


def _check_several_cards(vendor: Vendor, containers: Iterable[ContainerResources], cards: int) -> None:
    whole = vendor.whole_card_resource
    if any(whole in container.limits or whole in container.requests for container in containers):
        raise Refused(
            f"annotation {keys.CARDS}={cards} spreads memory over cards, and the pod asks for whole ones; leave the "
            f"annotation out and ask for {whole}: {cards}"
        )
    if not vendor.multi_card_runtime:
        raise Refused(
            f"annotation {keys.CARDS}={cards} is not granted: the container runtime of {vendor.name} hands one card to "
            "a container; leave the annotation out"
        )


def is_finished(pod: Pod) -> bool:
    """Whether the pod has ended, so that it holds nothing."""
    return pod.status.phase in FINISHED_PHASES


def has_stopped(pod: Pod) -> bool:
    """Whether nothing of the pod runs, and nothing of it will be started again.

    Kubelets below 1.27 delete a pod that was asked to end without ever writing a last phase; then its containers tell.
    """
    if is_finished(pod):
        return True
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return pod.is_being_deleted and bool(statuses) and all(each.state.terminated is not None for each in statuses)


def deletion_time_s(pod: Pod) -> float | None:
    """When a pod that is being deleted is to have ended, in seconds since the epoch: with its time to end, None else.

    A time that cannot be read is long over: nothing waits for such a pod.
    """
    text = pod.metadata.deletion_timestamp
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def pod_record(pod: Pod, vendor: Vendor) -> PodRecord | None:
    """The pod's record where it may be believed: an unbound pod's could have been written by its author.

    Raises:
        RemoteContractError: the record is malformed.
    """
    return decode_record(vendor, pod.metadata.annotations) if pod.spec.node_name else None


def pod_assignment(pod: Pod, vendor: Vendor) -> Assignment | None:
    """The cards that a bound, unfinished pod holds; None when it holds none.

    The cards come from the record, the units from the pod's spec, which cannot be changed: what the kubelet gives it,
    whether or not such a request would have been granted. A pod without a record (bound by others, not yet recorded by
    the plugin) has no cards: its assignment has no grants, and says what it will have. One that asks for whole cards
    and has no record is none of ours, as far as is known: another plugin may serve that resource.

    Raises:
        RemoteContractError, Refused: the request or the record cannot be read.
    """
    if not pod.spec.node_name or is_finished(pod):
        return None
    # Once bound, options are history: an author who edits them must not make the pod hold less than it does.
    request = pod_request(pod, vendor, options=NO_OPTIONS, is_bound=True)
    if request is None:
        return None
    record = pod_record(pod, vendor)
    if record is None:
        return None if request.cards.whole else unplaced_assignment(pod, vendor)
    return Assignment(
        pod_ref(pod), pod.spec.node_name, grants_of(request, record), record.assigned, record.assign_time_ns
    )


def unplaced_assignment(pod: Pod, vendor: Vendor) -> Assignment:
    """A bound pod of which no card is known: it has no grants, and the units that it will have on each of its cards.

    Those of its memory, where they can be read at all; over several cards where its author's option, read as the plugin
    reads it, says so.
    """
    units = 0
    for options in (None, NO_OPTIONS):
        try:
            request = pod_request(pod, vendor, options=options, is_bound=True)
        except (RemoteContractError, Refused):
            continue  # An unreadable option is none; where the request is unreadable too, nothing is known.
        units = request.cards.units if request is not None else 0
        break
    return Assignment(pod_ref(pod), pod.spec.node_name, (), unplaced=units)


def grants_of(request: PodRequest, record: PodRecord) -> tuple[CardGrant, ...]:
    """A pod's grants: the record's cards, with the units of its request that are on each.

    Raises:
        RemoteContractError: the record names another number of whole cards than the pod asks for.
    """
    if request.cards.whole:
        if len(record.card_indexes) != request.cards.cards:
            raise RemoteContractError(
                f"the record names {len(record.card_indexes)} whole cards, and the pod asks for {request.cards.cards}"
            )
        return tuple(CardGrant(index, record.card_units, whole=True) for index in record.card_indexes)
    shares = record.units_by_card(request.total_units)
    return tuple(CardGrant(index, units) for index, units in shares.items())


def _resources(container: Container, kind: ContainerKind) -> ContainerResources:
    return ContainerResources(container.name, kind, container.resources.limits, container.resources.requests)


def init_kind(container: Container) -> ContainerKind:
    """Whether an init container runs on beside the others (a sidecar), or ends before them."""
    return ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT


def _policy(annotations: Mapping[str, str], key: str, table: Mapping[str, object]) -> str | None:
    name = annotations.get(key)
    if name is not None and name not in table:
        raise RemoteContractError(f"annotation {key}={name[:80]!r} is not known; accepted: {', '.join(table)}")
    return name


def _words(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = annotations.get(key)
    if text is None:
        return ()
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",", _MAX_WORDS)))
    if "" in words or len(words) > _MAX_WORDS or any(len(word) > _MAX_WORD for word in words):
        raise RemoteContractError(
            f"annotation {key}={text[:80]!r} is malformed; write 1 to {_MAX_WORDS} card uuids, indexes or models of at "
            f"most {_MAX_WORD} characters each, separated by commas"
        )
    return words


def _cards_option(annotations: Mapping[str, str]) -> int:
    text = annotations.get(keys.CARDS)
    if text is None:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= MAX_CARDS_PER_POD):
        raise RemoteContractError(
            f"annotation {keys.CARDS}={text[:80]!r} is not accepted; write a whole number from 1 to {MAX_CARDS_PER_POD}"
        )
    return int(text)
