"""The extender's services without its server, for tests of their answers."""

from __future__ import annotations

from gcushare.scheduler_extender.binding import BindService
from gcushare.scheduler_extender.dispatching import Dispatcher, Services
from gcushare.scheduler_extender.explaining import ExplainService
from gcushare.scheduler_extender.filtering import FilterService
from gcushare.scheduler_extender.inspecting import InspectService
from gcushare.scheduler_extender.ports import Alone
from gcushare.scheduler_extender.preempting import PreemptService
from gcushare.scheduler_extender.state import VendorState
from gcushare.scheduler_extender.waking import RoomWaker
from tests.unit.extender_cluster import Cluster


def dispatcher_of(*parts: tuple[VendorState, FilterService | None], cluster: Cluster | None = None) -> Dispatcher:
    """What answers under the first vendor's prefix."""
    api = cluster or Cluster()
    return Dispatcher([services_of(state, filters, api) for state, filters in parts], api)


def services_of(state: VendorState, filters: FilterService | None, api: Cluster) -> Services:
    return Services(
        state=state,
        filters=filters or FilterService(state, best=20, refusals=lambda _: None),
        binds=BindService(state, api, Alone()),
        inspects=InspectService(state),
        preempts=PreemptService(state),
        explains=ExplainService(state),
        wakes=RoomWaker(state, api, lambda: True),
    )
