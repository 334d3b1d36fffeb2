"""Find the pod of a call as the API server has it, never as the body of the call describes it.

Any client of the scheduler's port may send any body. So the body only names a pod. Its request comes from the watch,
or, if the watch has not brought the pod yet, from one read. Reads are few: kube-scheduler and this program follow the
same watch and are milliseconds apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.errors import NotFoundError, Refused, RemoteContractError, RetryableError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.collections import Newest
from gcushare.kube.write_rate import TokenBucket
from gcushare.scheduler_extender.state.scheduling_request import (
    RejectedRequest,
    SchedulingRequest,
    read_scheduling_request,
)
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.objects import Pod
from gcushare.wire.pods import card_resources, names_resources, resource_asked

READS_PER_S = 50.0
"""Limit of reads for pods that the watch has not brought, so that forged calls cannot load the API server."""

BURST_READS = 200
"""Enough for a watch that is a second behind while pods are created as fast as a scheduler places them."""

_READ_S = 2.0
_MAX_WITHOUT_CARDS = 1024


@dataclass(frozen=True, slots=True)
class Known:
    """A pod's request and its vendor's state. ``request``: None if it asks for no card; the state is then the first.

    ``gets_no_record``: kube-scheduler has us bind it, but it names a resource of the vendor with quantity 0, or asks by
    a claim: ``claimed``, None once the claim is allocated.
    """

    state: VendorState
    request: SchedulingRequest | None
    gets_no_record: bool = False
    claimed: SchedulingRequest | None = None


class PodLookup:
    """Finds the pods of calls. ``states``: one per vendor served, that of the call's prefix first."""

    def __init__(self, states: Sequence[VendorState], client: KubeClient, clock: Clock) -> None:
        self._states = states
        self._client = client
        self._bucket = TokenBucket(READS_PER_S, BURST_READS, clock)
        self._resources = [name.encode() for each in states for name in card_resources(each.vendor)]
        self._without_cards = Newest[str, Known](_MAX_WITHOUT_CARDS)
        """By uid: pods that were read and ask for no card. A pod's resources do not change."""

    def find(self, pod: PodRef, written: bytes) -> Known | None:
        """Find a pod among those that the watch brought; None if it has to be read.

        ``written``: the part of the call that describes the pod. If none of our resources occurs in it, the pod counts
        as asking for no card and is not read. A caller that leaves the resource out gains nothing: it gets no card.

        Raises:
            RemoteContractError, Refused: the pod cannot get a card, is bound, or has another name.
        """
        uid = pod.uid
        for state in self._states:
            if (claiming := state.claiming.get(uid)) is not None or state.counts_by_claim(uid):
                if claiming is not None and str(claiming.pod) != str(pod):
                    raise Refused(f"uid {uid!r} is pod {claiming.pod}, not {pod}")
                if isinstance(claiming, RejectedRequest):
                    raise Refused(f"pod {pod}: {claiming.problem}")
                return Known(state, None, gets_no_record=True, claimed=claiming)
        found = [Known(state, request) for state in self._states if (request := _find_request(state, pod)) is not None]
        if found:
            return _only(str(pod), found)
        if (known := self._without_cards.get(uid)) is not None:
            return known
        return None if any(name in written for name in self._resources) else Known(self._states[0], None)

    async def read(self, pod: PodRef) -> Known:
        """Read a pod that no watch has brought, and remember its request.

        Raises:
            RemoteContractError, Refused: the pod does not exist, or as for ``find``.
            RetryableError: too many were read lately.
            GcushareError: the API server cannot be reached.
        """
        if not (pod.uid and pod.name and pod.namespace):
            raise RemoteContractError("the Pod of the request has no metadata.uid, name or namespace")
        if not self._bucket.take_now():
            raise RetryableError(
                f"the watch has not brought pod {pod} ({pod.uid}), and {READS_PER_S:g} such pods are read in a "
                "second at most; try again in a moment"
            )
        read = await read_unbound(self._client, pod, timeout_s=_READ_S)
        found = []
        for state in self._states:
            try:
                request = read_scheduling_request(read, state.vendor, state.policies)
            except (RemoteContractError, Refused) as error:
                raise type(error)(f"pod {pod}: {error}") from error
            if request is not None:
                found.append(Known(state, request))
        if not found:
            named = next((state for state in self._states if names_resources(read, state.vendor)), None)
            known = Known(self._states[0], None) if named is None else Known(named, None, gets_no_record=True)
            self._without_cards[pod.uid] = known
            return known
        known = _only(str(pod), found)
        if known.request is not None:
            known.state.remember(known.request)
        return known


def _only(key: str, found: list[Known]) -> Known:
    if len(found) > 1:
        first, second, *_ = (resource_asked(each.request.cards, each.state.vendor) for each in found if each.request)
        raise Refused(f"pod {key} asks for {first} and for {second}; a pod holds cards of one vendor")
    return found[0]


def _find_request(state: VendorState, pod: PodRef) -> SchedulingRequest | None:
    uid = pod.uid
    waiting, held = state.find_waiting(uid), state.bound.get(uid)
    known = held or waiting
    if known is None:
        return None
    if str(known.pod) != str(pod):
        raise Refused(f"uid {uid!r} is pod {known.pod}, not {pod}")
    if held is not None:
        raise Refused(f"pod {pod} is bound to node {held.node!r} already")
    if isinstance(waiting, RejectedRequest):
        family = RemoteContractError if waiting.is_malformed else Refused
        raise family(f"pod {pod}: {waiting.problem}")
    return waiting


async def read_unbound(client: KubeClient, ref: PodRef, *, timeout_s: float) -> Pod:
    """Read a pod that is to be bound.

    Raises:
        Refused: the pod does not exist, another one has its name, it is bound already, or it is being deleted.
        GcushareError: the API server cannot be reached.
    """
    try:
        pod = await client.read_pod(ref.namespace, ref.name, timeout_s=timeout_s)
    except NotFoundError as error:
        raise Refused(f"pod {ref} does not exist") from error
    if pod.metadata.uid != ref.uid:
        raise Refused(f"pod {ref} has uid {pod.metadata.uid!r}, not {ref.uid!r}: it is another pod")
    if pod.is_bound:
        raise Refused(f"pod {ref} is bound to node {pod.spec.node_name!r} already")
    if pod.is_being_deleted:
        raise Refused(f"pod {ref} is being deleted, and is placed no more")
    return pod
