"""Log at debug how the records of pods change: their annotations before and after, and their phases.

At other levels it stores nothing: the annotations of a whole cluster are kept only if such lines are written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from itertools import chain

from gcushare.core.log_fields import fields
from gcushare.vendors import Vendor
from gcushare.wire.annotations import record_keys
from gcushare.wire.objects import Pod

logger = logging.getLogger(__name__)


class PodChangeLog:
    """An observer of pods that only logs."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._keys = frozenset(chain.from_iterable(map(record_keys, vendors)))
        self._resources = [name for each in vendors for name in (each.memory_resource, each.whole_card_resource)]
        self._last: dict[str, tuple[str, str]] = {}
        """By uid: the phase, and the annotations of the record as JSON."""

    def pod_applied(self, pod: Pod) -> None:
        if not logger.isEnabledFor(logging.DEBUG):
            return
        uid, annotations = pod.metadata.uid, sorted(pod.metadata.annotations.items())
        status, record = pod.status.phase, json.dumps({key: value for key, value in annotations if key in self._keys})
        limits = (container.resources.limits for container in (*pod.spec.containers, *pod.spec.init_containers))
        if uid not in self._last and not any(name in each for each in limits for name in self._resources):
            return
        old_status, old_record = self._last.get(uid, ("", "{}"))
        self._last[uid] = status, record
        if (old_status, old_record) != (status, record):
            logger.debug(
                "pod changed %s",
                fields(
                    pod=pod.key,
                    uid=uid,
                    old_status=old_status,
                    new_status=status,
                    old_annotations=old_record,
                    new_annotations=record,
                ),
            )

    def pod_deleted(self, uid: str) -> None:
        self._last.pop(uid, None)

    def pods_retained(self, uids: frozenset[str], version: str) -> None:
        self._last = {uid: last for uid, last in self._last.items() if uid in uids}
