"""Which vendor a call of the scheduler is about: the pod's resources say it, not the path.

kube-scheduler accepts one extender that binds, so its one entry has to serve the pods of every vendor, whichever
prefix it names. With one vendor served this costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gcushare.core.errors import (
    ConflictError,
    ForbiddenError,
    GcushareError,
    NotFoundError,
    Refused,
    RemoteContractError,
    RetryableError,
)
from gcushare.kube.errors import UnknownOutcomeError
from gcushare.runtime.logs import fields
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.http.inspect import InspectService
from gcushare.scheduler_extender.ports import PodApi
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.answer import Answer
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.binding_client import NotLeader
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.pod_lookup import Known, PodLookup
from gcushare.scheduler_extender.verbs.preempt import PreemptService
from gcushare.scheduler_extender.waking.waker import RoomWaker
from gcushare.wire.documents.explain import ExplainDocument
from gcushare.wire.extender_api import (
    BIND_DONE,
    BindArguments,
    FilterArguments,
    FilterDecoder,
    decode_bind_arguments,
    encode_error,
)
from gcushare.wire.extender_preempt import decode_preempt_arguments

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """What answers for one vendor."""

    state: VendorState
    filters: FilterService
    binds: BindService
    inspects: InspectService
    preempts: PreemptService
    explains: ExplainService
    wakes: RoomWaker

    @property
    def vendor_name(self) -> str:
        return self.state.vendor.name


class Dispatcher:
    """Takes the calls that come under one prefix. ``services``: the prefix's own vendor first, then the others."""

    def __init__(self, services: Sequence[Services], api: PodApi) -> None:
        self._services = services
        self._own = services[0]
        self._of_vendor = {each.vendor_name: each for each in services}
        self._pods = PodLookup([each.state for each in services], api)
        self._decode = FilterDecoder().decode

    def filter(self, body: bytes) -> Answer | Awaitable[Answer]:
        """Answer a filter request, later where its pod has to be read; what is wrong becomes the protocol's Error."""
        try:
            arguments = self._decode(body)
            known = self._pods.find(arguments.pod, arguments.written)
            return self._filter_unseen(arguments) if known is None else self._filter(arguments, known)
        except (RemoteContractError, Refused) as error:
            return self._fail_filter(error)

    async def _filter_unseen(self, arguments: FilterArguments) -> Answer:
        try:
            return self._filter(arguments, await self._pods.read(arguments.pod))
        except GcushareError as error:
            return self._fail_filter(error)

    def _filter(self, arguments: FilterArguments, known: Known) -> Answer:
        filters = self._of(known).filters
        return filters.let_through(arguments) if known.asks_for_zero else filters.filter(arguments, known.request)

    def _fail_filter(self, error: GcushareError) -> Answer:
        logger.info("filter refused %s", fields(reason=error))
        return Answer(encode_error(str(error)), "error", self._own.vendor_name, reason_of(error))

    def prioritize(self, body: bytes) -> Answer | Awaitable[Answer]:
        """Answer a prioritize request, later where its pod has to be read.

        Raises:
            RemoteContractError, Refused: the request cannot be read, or its pod cannot be granted a card; the protocol
                has no place for an error here.
        """
        arguments = self._decode(body)
        known = self._pods.find(arguments.pod, arguments.written)
        return self._prioritize_unseen(arguments) if known is None else self._prioritize(arguments, known)

    async def _prioritize_unseen(self, arguments: FilterArguments) -> Answer:
        return self._prioritize(arguments, await self._pods.read(arguments.pod))

    def _prioritize(self, arguments: FilterArguments, known: Known) -> Answer:
        return self._of(known).filters.prioritize(arguments, known.request)

    async def preempt(self, body: bytes) -> Answer:
        """Answer a preempt request; others get their turn meanwhile.

        Raises:
            RemoteContractError, Refused: as for prioritize, and as ``PreemptService.preempt``.
            GcushareError: the pod has to be read, and cannot be.
        """
        arguments = decode_preempt_arguments(body, self._own.state.max_nodes_asked)
        known = self._pods.find(arguments.pod, body) or await self._pods.read(arguments.pod)
        return await self._of(known).preempts.preempt(arguments, known.request)

    async def bind(self, body: bytes) -> Answer:
        """Carry a bind request out; what came in its way becomes the protocol's Error, which is shown on the pod.

        Raises:
            NotLeader: another replica serves.
        """
        services, arguments = self._own, None
        try:
            arguments = decode_bind_arguments(body)
            services = self._find_offered(arguments)
            await services.binds.bind(arguments)
        except NotLeader:
            raise
        except GcushareError as error:
            if arguments is not None:
                for each in self._services:  # Whose pod it is may be what was not found; the others do not know it.
                    each.wakes.note_unbound(arguments.pod.uid)
            return Answer(encode_error(str(error)), result_of(error), services.vendor_name, reason_of(error))
        return Answer(BIND_DONE, "bound", services.vendor_name)

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Explain a pod of whichever vendor knows it.

        Raises:
            NotFoundError: none does.
        """
        for services in self._services[1:]:
            if services.explains.knows(namespace, name) and not self._own.explains.knows(namespace, name):
                return await services.explains.explain(namespace, name)
        return await self._own.explains.explain(namespace, name)

    def _of(self, known: Known) -> Services:
        return self._of_vendor[known.state.vendor.name]

    def _find_offered(self, arguments: BindArguments) -> Services:
        """Whose pod it is, by what filter named for it lately; a repeated call by what it holds on the node.

        Raises:
            Refused: filter named no node for it, or others.
        """
        uid, node = arguments.pod.uid, arguments.node
        what = f"pod {arguments.pod} ({uid}) is not bound to node {node!r}"
        for services in self._services:
            state = services.state
            held, offered = state.ledger.assignment(uid), state.offered.get(uid) or state.let_through.get(uid)
            if uid in state.bound or (held is not None and held.node == node):
                return services  # Which compares the rest, and sends nothing that it did not send before.
            if offered is not None and node not in offered:
                raise Refused(f"{what}, which filter did not name for it; filter it again")
            if offered is not None:
                return services
        raise Refused(f"{what}: it has not passed filter here lately; filter it again")


def result_of(error: Exception) -> str:
    """The word that metrics count a failed call under."""
    return "refused" if isinstance(error, Refused | RemoteContractError) else "error"


# First match wins, so a family stands before its root.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (RemoteContractError, "malformed"),
    (Refused, "declined"),
    (NotFoundError, "gone"),
    (ConflictError, "conflict"),
    (ForbiddenError, "forbidden"),
    (UnknownOutcomeError, "unknown_outcome"),
    (RetryableError, "unavailable"),
)
REASONS = (*(reason for _, reason in _REASONS), "defect")
"""What `reason_of` says."""


def reason_of(error: Exception) -> str:
    """The word of the metrics for what came in a call's way: its family; ``defect`` where it has none."""
    return next((reason for family, reason in _REASONS if isinstance(error, family)), "defect")
