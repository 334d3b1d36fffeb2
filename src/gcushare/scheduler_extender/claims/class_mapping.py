"""Have kube-scheduler read our DeviceClass again once another one for the same extended resource has gone.

kube-scheduler 1.36 keeps one class for an extended resource: the one that was written last. When that is deleted, it
knows none until ours is written again, and pods that ask for whole cards wait. New ones are then bound at once; those
that wait are tried again within five minutes, as kube-scheduler does with all that were refused for a resource.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from gcushare.core.errors import GcushareError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, rfc3339
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import DEVICE_CLASSES
from gcushare.vendors import Vendor

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
        self._classes = {vendor.whole_card_resource: vendor.claims.whole_class for vendor in vendors}
        self._is_leader = is_leader
        self._clock = clock
        self._rivals: set[tuple[str, str]] | None = None
        """The other classes of our resources, by resource and name; None before the first look of this leader."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            if self._is_leader():
                try:
                    await self._look()
                except GcushareError as error:
                    logger.warning("the DeviceClasses are not looked after; will retry %s", fields(reason=error))
            else:
                self._rivals = None
            await self._clock.sleep(LOOK_S)

    async def _look(self) -> None:
        listed = await self._client.list_all(DEVICE_CLASSES)
        found = {(_resource(each), str(each["metadata"]["name"])) for each in listed}
        rivals = {each for each in found if each[0] in self._classes and each not in self._classes.items()}
        gone = {resource for resource, _ in (self._rivals or set()) - rivals}
        if self._rivals is None:  # what an earlier leader saw is not known
            gone = set(self._classes)
        for resource, name in sorted(self._classes.items()):
            if resource in gone and (resource, name) in found and not any(each[0] == resource for each in rivals):
                noted = {"metadata": {"annotations": {READ_AGAIN: rfc3339(self._clock.now())}}}
                await self._client.patch(DEVICE_CLASSES, name, Patch(PatchKind.MERGE, noted))
                logger.info("has kube-scheduler read a DeviceClass again %s", fields(name=name, resource=resource))
        self._rivals = rivals


def _resource(found: dict[str, Any]) -> str:
    return str((found.get("spec") or {}).get("extendedResourceName", ""))
