"""Reads what preemption has to know of a preemptor and of a node, and what no ledger has.

A preemption is rare and its pods end for good. So everything is read when it is decided, from the API server's newest
state, and nothing of it is kept: labels and requests of all pods of a cluster would take much memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Self

from gcushare.cluster.reader import UNFINISHED
from gcushare.core.assignments import PodRef
from gcushare.core.errors import ForbiddenError, NotFoundError, Refused
from gcushare.core.log_fields import fields
from gcushare.core.preemption.choice import Occupancy
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES, OCCUPANTS, POD_DISRUPTION_BUDGETS, Selector
from gcushare.vendors.vendor import Vendor
from gcushare.wire.occupants import Budgets, OccupantPod, by_namespace, read_occupancy

logger = logging.getLogger(__name__)


class OccupancyReader:
    """Reads nodes for one preemptor, and once who may end at all: the disruption budgets.

    ``budgets`` are None if they cannot be read: without the right, or before Kubernetes 1.21.
    """

    def __init__(self, client: KubeClient, vendor: Vendor, preemptor: OccupantPod, budgets: Budgets | None) -> None:
        self._client, self._vendor, self._preemptor, self._budgets = client, vendor, preemptor, budgets

    @classmethod
    async def open(cls, client: KubeClient, vendor: Vendor, pod: PodRef) -> Self:
        """Read the preemptor and the budgets.

        Raises:
            Refused: the preemptor is gone, or another pod has its name.
            GcushareError: the API server does not answer.
        """
        try:
            preemptor = await client.get(OCCUPANTS, pod.name, namespace=pod.namespace)
        except NotFoundError as error:
            raise Refused(f"pod {pod} does not exist any more") from error
        if preemptor.metadata.uid != pod.uid:
            raise Refused(f"pod {pod} has uid {preemptor.metadata.uid!r}, not {pod.uid!r}: it is another pod")
        try:
            budgets = by_namespace(await client.list_all(POD_DISRUPTION_BUDGETS))
        except (ForbiddenError, NotFoundError) as error:
            logger.warning("pods end only if kube-scheduler proposed them: budgets unknown %s", fields(error=error))
            return cls(client, vendor, preemptor, None)
        return cls(client, vendor, preemptor, budgets)

    async def read(self, name: str, ahead: Iterable[PodRef]) -> Occupancy | None:
        """Read a node and its pods; None if it is gone. ``ahead`` are the nominees that go first there.

        Raises:
            GcushareError: the API server does not answer, or a quantity is malformed.
        """
        nodes = await self._client.list_all(NODES, Selector(fields=f"metadata.name={name}"))
        pods = await self._client.list_all(OCCUPANTS, Selector(fields=f"spec.nodeName={name},{UNFINISHED}"))
        nominees: list[OccupantPod] = []
        for each in ahead:
            with suppress(NotFoundError):
                nominees.append(await self._client.get(OCCUPANTS, each.name, namespace=each.namespace))
        if not nodes:
            return None
        return read_occupancy(self._preemptor, nodes[0], pods, self._budgets, ahead=nominees, vendor=self._vendor)
