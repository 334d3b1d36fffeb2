"""Moves a label to the pod of the replica that leads: the Services select by it, so every other replica may be ready.

Only the leader writes, with the right to patch ``pods/status`` that it has for waiting pods. It takes the label from
all others, so that one that died, was cut off or wrote late is called no more. Between two leaders the label stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS
from gcushare.wire.contracts import LEADS_LABEL
from gcushare.wire.objects import Pod

logger = logging.getLogger(__name__)

_WRITE_S = 2.0
_RETRY = BackoffPolicy(first_s=0.2, cap_s=2.0)
_TOLERATED_S = 10.0
"""A leader without its label is called by no one; after this time its readiness says why."""


class LeaderLabel:
    """Keeps the label on ``pod`` while this replica leads; its value is the name of the Lease.

    It observes pods and remembers those with the label. Only the watch says who has it: the answer to a write of ours
    may come after the event of a later write. Call ``wake`` when the replica begins to lead.
    """

    def __init__(
        self, api: KubeClient, leads: Callable[[], bool], *, namespace: str, pod: str, lease: str, clock: Clock
    ) -> None:
        self._api = api
        self._leads = leads
        self._namespace, self._pod, self._lease = namespace, pod, lease
        self._clock = clock
        self._labelled: dict[str, str] = {}
        """Names of the pods that have the label, by uid."""
        self._woken = asyncio.Event()
        self._woken.set()
        self._backoff = Backoff(_RETRY)
        self._failed: tuple[float, str] | None = None
        """Since when the label cannot be written, in monotonic seconds, and why."""

    def wake(self) -> None:
        self._woken.set()

    def pod_applied(self, pod: Pod) -> None:
        metadata = pod.metadata
        if metadata.namespace == self._namespace and metadata.labels.get(LEADS_LABEL) == self._lease:
            self._labelled[metadata.uid] = metadata.name
            is_right = metadata.name == self._pod
        else:
            self.pod_deleted(metadata.uid)
            is_right = (metadata.namespace, metadata.name) != (self._namespace, self._pod)
        if not is_right:
            self.wake()

    def pod_deleted(self, uid: str) -> None:
        self._labelled.pop(uid, None)

    def pods_retained(self, uids: frozenset[str], _version: str) -> None:
        for uid in self._labelled.keys() - uids:
            self.pod_deleted(uid)

    async def run(self) -> None:
        """Write until cancelled."""
        delay_s: float | None = None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._woken.wait()
            self._woken.clear()
            delay_s = None
            try:
                if self._leads():
                    await self._put_right()
            except GcushareError as error:
                if self._failed is None:
                    logger.warning("the leader's pod is not labelled yet %s", fields(pod=self._pod, reason=error))
                self._failed = (self._clock.monotonic() if self._failed is None else self._failed[0], str(error))
                delay_s = self._backoff.next_delay_s(error)
            else:
                self._failed = None
                self._backoff.reset()

    async def find_obstacle(self) -> str | None:
        """For readiness: why no one calls this replica although it leads."""
        if self._failed is None or not self._leads() or self._clock.monotonic() < self._failed[0] + _TOLERATED_S:
            return None
        return (
            f"this replica leads, but its pod cannot be labelled {LEADS_LABEL}={self._lease}, by which the Service "
            f"finds it: {self._failed[1]}"
        )

    async def _put_right(self) -> None:
        if self._pod not in self._labelled.values():
            await self._label(self._pod, self._lease)
            logger.info("labelled the leader's pod %s", fields(pod=self._pod))
        for name in list(self._labelled.values()):
            if name != self._pod and self._leads():
                with suppress(NotFoundError):
                    await self._label(name, None)
                logger.info("took the leader's label from another pod %s", fields(pod=name))

    async def _label(self, pod: str, value: str | None) -> None:
        patch = Patch(PatchKind.MERGE, {"metadata": {"labels": {LEADS_LABEL: value}}})
        await self._api.patch(PODS, pod, patch, namespace=self._namespace, subresource="status", timeout_s=_WRITE_S)
