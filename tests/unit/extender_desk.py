"""The extender's services without its server, for tests of their answers."""

from __future__ import annotations

import json

import msgspec

from gcushare.scheduler_extender.explain.failed_scheduling_events import FailedSchedulingReporter
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.inspect_documents import InspectService
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.dispatch import Dispatcher, Services
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.preempt import PreemptService
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.scheduler_extender.waking.waker import RoomWaker
from gcushare.wire.objects import Pod
from tests.unit.extender_cluster import Cluster
from tests.unit.noted_events import Noted


def dispatcher_of(*parts: tuple[VendorState, FilterService | None], cluster: Cluster | None = None) -> Dispatcher:
    """What answers under the first vendor's prefix."""
    api = cluster or Cluster()
    return Dispatcher([services_of(state, filters, api) for state, filters in parts], api)


def services_of(state: VendorState, filters: FilterService | None, api: Cluster) -> Services:
    explains = ExplainService(state)
    return Services(
        state=state,
        filters=filters or FilterService(state, named=NamedNodes(20), refusals=lambda _: None),
        binds=BindService(state, api, AlwaysLeader()),
        inspects=InspectService(state),
        preempts=PreemptService(state),
        explains=explains,
        reports=FailedSchedulingReporter(explains, Noted()),
        wakes=RoomWaker(state, api, lambda: True),
    )


class Desk:
    """A dispatcher whose watches have brought the pod of every call, as it stands in the body."""

    def __init__(self, *parts: tuple[VendorState, FilterService | None]) -> None:
        self._states = [state for state, _ in parts]
        self.dispatcher = dispatcher_of(*parts)

    def filter(self, body: bytes) -> VerbAnswer:
        self._see(body)
        answer = self.dispatcher.filter(body)
        assert isinstance(answer, VerbAnswer), "the pod was to be read"
        return answer

    def prioritize(self, body: bytes) -> VerbAnswer:
        self._see(body)
        answer = self.dispatcher.prioritize(body)
        assert isinstance(answer, VerbAnswer), "the pod was to be read"
        return answer

    async def preempt(self, body: bytes) -> VerbAnswer:
        self._see(body)
        return await self.dispatcher.preempt(body)

    def _see(self, body: bytes) -> None:
        pod = msgspec.convert(json.loads(body)["Pod"], Pod)
        for state in self._states:
            state.pod_applied(pod)
