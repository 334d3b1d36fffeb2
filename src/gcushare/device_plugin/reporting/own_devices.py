"""Posts an Event on each pod of this node that chooses its visible cards itself."""

from __future__ import annotations

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.api_server import Announcer
from gcushare.vendors import Vendor
from gcushare.wire.dra.claims import PodWithClaims
from gcushare.wire.own_devices import describe_own_devices
from gcushare.wire.pods import is_finished, pod_ref


class OwnDevicesReport:
    """For the strategy ``env``: with the others, containers see no other card through a variable.

    A pod's variables never change, so each pod is looked at once.
    """

    def __init__(self, vendor: Vendor, mode: GrantMode, announcer: Announcer) -> None:
        self._vendor = vendor
        self._resources = {
            resource
            for part, resource in ((SERVES_MEMORY, vendor.memory_resource), (SERVES_WHOLE, vendor.whole_card_resource))
            if part in mode.parts
        }
        self._announcer = announcer
        self._known: set[str] = set()

    def pod_applied(self, pod: PodWithClaims) -> None:
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        is_ours = any(not self._resources.isdisjoint(each.resources.limits) for each in containers)
        if pod.metadata.uid in self._known or is_finished(pod) or not is_ours:
            return
        self._known.add(pod.metadata.uid)
        if text := describe_own_devices(containers, self._vendor):
            self._announcer.about_pod(pod_ref(pod), "OwnVisibleDevices", f"{text}; remove the variable", warning=True)

    def pod_deleted(self, uid: str) -> None:
        self._known.discard(uid)

    def pods_retained(self, uids: frozenset[str]) -> None:
        self._known &= uids
