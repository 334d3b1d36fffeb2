"""Have kube-scheduler read our DeviceClass again once another one for the same extended resource has gone.

kube-scheduler 1.36 keeps one class for an extended resource: the one that was written last. When that is deleted, it
knows none until ours is written again, and pods that ask for whole cards wait. New ones are then bound at once; those
that wait are tried again within five minutes, as kube-scheduler does with all that were refused for a resource.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, rfc3339
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import DEVICE_CLASSES
from gcushare.vendors import Vendor
from gcushare.wire.dra.device_classes import extended_resources, rival_classes

logger = logging.getLogger(__name__)

LOOK_S = 20.0
"""Between two looks. Such a class comes and goes with another driver: seldom."""
READ_AGAIN = "gcushare.io/read-again"
"""On our DeviceClass: when it was written for kube-scheduler to read it again."""


class ClassMapping:
    """Looks while ``is_leader`` says so; ``run`` it in a task of its own."""

    def __init__(
        self, client: KubeClient, vendors: Sequence[Vendor], is_leader: Callable[[], bool], clock: Clock
    ) -> None:
        self._client = client
        self._vendors = vendors
        self._is_leader = is_leader
        self._clock = clock
        self._rivals: dict[Vendor, set[str]] = {}
        """The names of the other classes at the last look; without the vendor before the first look of this leader."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            if self._is_leader():
                try:
                    await self._look()
                except GcushareError as error:
                    logger.warning("the DeviceClasses are not looked after; will retry %s", fields(reason=error))
            else:
                self._rivals.clear()  # what changes until it leads again is not known
            await self._clock.sleep(LOOK_S)

    async def _look(self) -> None:
        resources = extended_resources(await self._client.list_all(DEVICE_CLASSES))
        for vendor in self._vendors:
            name, resource = vendor.claims.whole_class, vendor.whole_card_resource
            rivals, before = set(rival_classes(resources, vendor)), self._rivals.get(vendor)
            has_gone = before is None or before - rivals
            if has_gone and not rivals and resources.get(name) == resource:
                noted = {"metadata": {"annotations": {READ_AGAIN: rfc3339(self._clock.now())}}}
                await self._client.patch(DEVICE_CLASSES, name, Patch(PatchKind.MERGE, noted))
                logger.info("has kube-scheduler read a DeviceClass again %s", fields(name=name, resource=resource))
            self._rivals[vendor] = rivals
