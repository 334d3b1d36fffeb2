"""Posts an Event on each pod of this node that chooses its visible cards itself."""

from __future__ import annotations

from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.api_server import Announcer
from gcushare.vendors import Vendor
from gcushare.wire.dra.claims import PodWithClaims
from gcushare.wire.own_devices import describe_free_ride, describe_own_devices
from gcushare.wire.pods import is_finished, pod_ref


class OwnDevicesReport:
    """An observer of this node's pods: with a card that was given here, or without asking for any.

    ``mode``: what is given here; None for claims, whose variables replace those of the pod. A container's variables
    never change, so each pod is looked at once, and again when ``kubectl debug`` gave it another container.
    """

    def __init__(self, vendor: Vendor, mode: GrantMode | None, announcer: Announcer) -> None:
        self._vendor = vendor
        self._resources = {
            resource
            for part, resource in ((SERVES_MEMORY, vendor.memory_resource), (SERVES_WHOLE, vendor.whole_card_resource))
            if mode is not None and part in mode.parts
        }
        self._announcer = announcer
        self._known: dict[str, int] = {}
        """By uid, how many containers a pod had."""

    def pod_applied(self, pod: PodWithClaims) -> None:
        """Look at a pod."""
        containers = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
        if self._known.get(pod.metadata.uid) == len(containers) or is_finished(pod):
            return
        self._known[pod.metadata.uid] = len(containers)
        if any(not self._resources.isdisjoint(each.resources.limits) for each in containers):
            text = describe_own_devices(containers, self._vendor)
        else:
            text = describe_free_ride(pod, containers, self._vendor)
        if text:
            self._announcer.about_pod(pod_ref(pod), "OwnVisibleDevices", f"{text}; remove the variable", warning=True)

    def pod_deleted(self, pod: PodWithClaims) -> None:
        """Forget a pod that is gone."""
        self._known.pop(pod.metadata.uid, None)

    def pods_retained(self, uids: frozenset[str]) -> None:
        """Forget every pod that a full list lacks."""
        self._known = {uid: count for uid, count in self._known.items() if uid in uids}
