"""Find the vendor that a call of the scheduler is for: by the pod's resources, not by the path.

kube-scheduler accepts one extender that binds. So its one entry serves the pods of every vendor, whatever prefix it
names.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gcushare.core.errors import GcushareError, Refused, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.scheduler_extender.explain.failed_scheduling_events import FailedSchedulingReporter
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.leadership import NotLeader
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.pod_lookup import Known, PodLookup
from gcushare.scheduler_extender.verbs.preempt import PreemptService
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer, reason_of, result_of
from gcushare.scheduler_extender.waking.waker import RoomWaker
from gcushare.wire import extender_api
from gcushare.wire.documents.explain import ExplainDocument
from gcushare.wire.extender_api import BindArguments, FilterArguments, encode_error
from gcushare.wire.extender_preempt import decode_preempt_arguments

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one vendor."""

    state: VendorState
    filters: FilterService
    binds: BindService
    preempts: PreemptService
    explains: ExplainService
    reports: FailedSchedulingReporter
    wakes: RoomWaker

    @property
    def vendor_name(self) -> str:
        return self.state.vendor.name


class Dispatcher:
    """Answers the calls under one prefix. ``services``: those of the prefix's vendor first, then the others."""

    def __init__(self, services: Sequence[Services], client: KubeClient, clock: Clock) -> None:
        self._services = services
        self._own = services[0]
        self._of_vendor = {each.vendor_name: each for each in services}
        self._pods = PodLookup([each.state for each in services], client, clock)
        self._decode = extender_api.FilterDecoder().decode

    def filter(self, body: bytes) -> VerbAnswer | Awaitable[VerbAnswer]:
        """Answer a filter request, later if its pod has to be read. Errors go into the protocol's Error field."""
        try:
            arguments = self._decode(body)
            known = self._pods.find(arguments.pod, arguments.written)
            return self._filter_unknown(arguments) if known is None else self._filter(arguments, known)
        except (RemoteContractError, Refused) as error:
            return self._fail_filter(error)

    async def _filter_unknown(self, arguments: FilterArguments) -> VerbAnswer:
        try:
            return self._filter(arguments, await self._pods.read(arguments.pod))
        except GcushareError as error:
            return self._fail_filter(error)

    def _filter(self, arguments: FilterArguments, known: Known) -> VerbAnswer:
        filters = self._of(known).filters
        if known.gets_no_record:
            return filters.let_through(arguments, known.claimed)
        return filters.filter(arguments, known.request)

    def _fail_filter(self, error: GcushareError) -> VerbAnswer:
        logger.info("filter refused %s", fields(reason=error))
        return VerbAnswer(encode_error(str(error)), "error", self._own.vendor_name, reason_of(error))

    def prioritize(self, body: bytes) -> VerbAnswer | Awaitable[VerbAnswer]:
        """Answer a prioritize request, later if its pod has to be read.

        Raises:
            RemoteContractError, Refused: the request cannot be read, or its pod cannot get a card. The protocol has no
                field for an error here.
        """
        arguments = self._decode(body)
        known = self._pods.find(arguments.pod, arguments.written)
        if known is None:
            return self._prioritize_unknown(arguments)
        return self._of(known).filters.prioritize(arguments, known.request)

    async def _prioritize_unknown(self, arguments: FilterArguments) -> VerbAnswer:
        known = await self._pods.read(arguments.pod)
        return self._of(known).filters.prioritize(arguments, known.request)

    async def preempt(self, body: bytes) -> VerbAnswer:
        """Answer a preempt request, and yield to other calls in between.

        Raises:
            RemoteContractError, Refused: as for prioritize, and as ``PreemptService.preempt``.
            GcushareError: the pod has to be read, and cannot be.
        """
        arguments = decode_preempt_arguments(body, self._own.state.max_nodes_asked)
        known = self._pods.find(arguments.pod, body) or await self._pods.read(arguments.pod)
        return await self._of(known).preempts.preempt(arguments, known.request)

    async def bind(self, body: bytes) -> VerbAnswer:
        """Carry out a bind request. Errors go into the protocol's Error field, which kube-scheduler shows on the pod.

        Raises:
            NotLeader: another replica serves.
        """
        services = self._own
        try:
            arguments = extender_api.decode_bind_arguments(body)
            services = self._find_offered(arguments)
            await services.binds.bind(arguments)
        except NotLeader:
            raise
        except GcushareError as error:
            return VerbAnswer(encode_error(str(error)), result_of(error), services.vendor_name, reason_of(error))
        return VerbAnswer(extender_api.BIND_DONE, "bound", services.vendor_name)

    async def explain(self, namespace: str, name: str) -> ExplainDocument:
        """Explain a pod, of any vendor.

        Raises:
            NotFoundError: no vendor knows the pod.
        """
        explains = [each.explains for each in self._services]
        known = next((each for each in explains if each.find(namespace, name) is not None), explains[0])
        return await known.explain(namespace, name)

    def _of(self, known: Known) -> Services:
        return self._of_vendor[known.state.vendor.name]

    def _find_offered(self, arguments: BindArguments) -> Services:
        """Find the services of the vendor whose filter lately named this node, or whose cards the pod holds.

        Raises:
            Refused: filter named no node for the pod, or other nodes.
        """
        uid, node = arguments.pod.uid, arguments.node
        what = f"pod {arguments.pod} ({uid}) is not bound to node {node!r}"
        for services in self._services:
            state = services.state
            held = state.ledger.assignment(uid)
            offered = state.named_with_record.get(uid) or state.named_without_record.get(uid)
            if uid in state.bound or (held is not None and held.node == node):
                return services  # A repeated call: bind compares the rest, and sends nothing new.
            if offered is not None and node not in offered:
                raise Refused(f"{what}, which filter did not name for it; filter it again")
            if offered is not None:
                return services
        raise Refused(f"{what}: it has not passed filter here lately; filter it again")
