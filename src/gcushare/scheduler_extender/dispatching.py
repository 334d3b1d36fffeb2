"""Which vendor a call of the scheduler is about: the pod's resources say it, not the path.

kube-scheduler accepts one extender that binds, so its one entry has to serve the pods of every vendor, whichever
prefix it names. With one vendor served this costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
from gcushare.scheduler_extender.asking import Asking, read_asking
from gcushare.scheduler_extender.binding import BindService
from gcushare.scheduler_extender.explaining import ExplainService
from gcushare.scheduler_extender.filtering import Answer, FilterService
from gcushare.scheduler_extender.inspecting import InspectService
from gcushare.scheduler_extender.outcomes import NotLeader
from gcushare.scheduler_extender.ports import PodApi
from gcushare.scheduler_extender.preempting import PreemptService
from gcushare.scheduler_extender.state import VendorState
from gcushare.scheduler_extender.waking import RoomWaker
from gcushare.wire.explain_documents import ExplainDocument
from gcushare.wire.extender import (
    BIND_DONE,
    BindArguments,
    FilterDecoder,
    decode_bind_arguments,
    decode_preempt_arguments,
    encode_error,
)
from gcushare.wire.objects import Pod

log = logging.getLogger(__name__)

_READ_S = 2.0


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
        self._api = api
        self._decode = FilterDecoder().decode
        self._last: tuple[Pod, Services, Asking | None] | None = None

    def filter(self, body: bytes) -> Answer:
        """Answer a filter request; what is wrong with it becomes the protocol's Error."""
        try:
            arguments = self._decode(body)
            services, asking = self._find(arguments.pod)
            return services.filters.filter(arguments, asking)
        except (RemoteContractError, Refused) as error:
            log.info("filter refused %s", fields(reason=error))
            return Answer(encode_error(str(error)), "error", self._own.vendor_name, reason_of(error))

    def prioritize(self, body: bytes) -> Answer:
        """Answer a prioritize request.

        Raises:
            RemoteContractError, Refused: the request cannot be read; the protocol has no place for an error here.
        """
        arguments = self._decode(body)
        services, asking = self._find(arguments.pod)
        return services.filters.prioritize(arguments, asking)

    async def preempt(self, body: bytes) -> Answer:
        """Answer a preempt request; others get their turn meanwhile.

        Raises:
            RemoteContractError, Refused: as for prioritize, and as ``PreemptService.preempt``.
        """
        arguments = decode_preempt_arguments(body)
        services, asking = self._find(arguments.pod)
        return await services.preempts.preempt(arguments, asking)

    async def bind(self, body: bytes) -> Answer:
        """Carry a bind request out; what came in its way becomes the protocol's Error, which is shown on the pod.

        Raises:
            NotLeader: another replica serves.
        """
        services, arguments = self._own, None
        try:
            arguments = decode_bind_arguments(body)
            services = await self._find_waiting(arguments)
            await services.binds.bind(arguments)
        except NotLeader:
            raise
        except GcushareError as error:
            if arguments is not None:
                services.wakes.note_unbound(arguments.pod_uid)
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

    def _find(self, pod: Pod) -> tuple[Services, Asking | None]:
        """The vendor whose cards a pod asks for, and what it asks; the prefix's own where it asks for none."""
        if self._last is None or self._last[0] is not pod:
            self._last = (pod, *self._look(pod))
        _, services, asking = self._last
        if asking is not None:
            services.state.remember(asking)
        return services, asking

    def _look(self, pod: Pod) -> tuple[Services, Asking | None]:
        found: tuple[Services, Asking] | None = None
        for services in self._services:
            asking = _read(pod, services.state)
            if asking is None:
                continue
            if found is not None:
                raise Refused(
                    f"pod {pod.key} asks for {found[0].state.vendor.memory_resource} and for "
                    f"{services.state.vendor.memory_resource}; a pod holds cards of one vendor"
                )
            found = services, asking
        return found or (self._own, None)

    async def _find_waiting(self, arguments: BindArguments) -> Services:
        """The vendor that knows the pod; where none does and several could, the pod is read."""
        if len(self._services) == 1:
            return self._own
        for services in self._services:
            if services.state.knows(arguments.pod_uid):
                return services
        try:
            pod = await self._api.read_pod(arguments.pod_namespace, arguments.pod_name, timeout_s=_READ_S)
            services, asking = self._find(pod)
        except (RemoteContractError, Refused, NotFoundError):
            return self._own  # Which meets the same, and says it.
        if asking is not None and pod.metadata.uid == arguments.pod_uid and not pod.is_bound:
            services.state.remember(asking)
        return services


def _read(pod: Pod, state: VendorState) -> Asking | None:
    try:
        return read_asking(pod, state.vendor, state.policies)
    except (RemoteContractError, Refused) as error:
        raise type(error)(f"pod {pod.key}: {error}") from error


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


def reason_of(error: Exception) -> str:
    """The word of the metrics for what came in a call's way: its family; ``defect`` where it has none."""
    return next((reason for family, reason in _REASONS if isinstance(error, family)), "defect")
