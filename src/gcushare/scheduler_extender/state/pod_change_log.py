"""Log at debug how the records of pods change: their annotations before and after, and their phases.

At other levels it stores nothing: the annotations of a whole cluster are kept only if such lines are written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from gcushare.core.log_fields import fields
from gcushare.vendors import Vendor
from gcushare.wire.annotations.keys import CARD_UUID, CORRECTED
from gcushare.wire.annotations.record import record_keys
from gcushare.wire.objects import Pod

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    phase: str
    record: str


class PodChangeLog:
    """An observer of pods that only logs."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self._keys = frozenset((*chain.from_iterable(map(record_keys, vendors)), CARD_UUID, CORRECTED))
        self._resources = [name for each in vendors for name in (each.memory_resource, each.whole_card_resource)]
        self._seen: dict[str, _Seen] = {}

    def on_pod_update(self, pod: Pod) -> None:
        """Log how a pod differs from its last state."""
        if not logger.isEnabledFor(logging.DEBUG):
            return
        now = _Seen(pod.status.phase, self._record_of(pod))
        before = self._seen.get(pod.metadata.uid)
        if before is None and not self._asks(pod):
            return
        self._seen[pod.metadata.uid] = now
        was = before if before is not None else _Seen("", "{}")
        if was != now:
            logger.debug(
                "pod changed %s",
                fields(
                    pod=pod.key,
                    uid=pod.metadata.uid,
                    old_status=was.phase,
                    new_status=now.phase,
                    old_annotations=was.record,
                    new_annotations=now.record,
                ),
            )

    def on_pod_delete(self, uid: str) -> None:
        """Forget a pod."""
        self._seen.pop(uid, None)

    def on_pod_resync(self, uids: frozenset[str], version: str) -> None:
        """Forget every other pod."""
        self._seen = {uid: seen for uid, seen in self._seen.items() if uid in uids}

    def _asks(self, pod: Pod) -> bool:
        limits = (container.resources.limits for container in (*pod.spec.containers, *pod.spec.init_containers))
        return any(name in each for each in limits for name in self._resources)

    def _record_of(self, pod: Pod) -> str:
        found = pod.metadata.annotations.items()
        return json.dumps({key: value for key, value in sorted(found) if key in self._keys})
