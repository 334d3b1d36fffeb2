"""The most that each pod has used of each card, since this program saw it first. A restart begins again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gcushare.node.pod_use import PodUse


@dataclass(frozen=True, slots=True)
class HighestUse:
    """``bytes`` by card; ``since``: seconds since the epoch of the first reading with the pod."""

    bytes: Mapping[int, int]
    since: float


class HighestUses:
    """``by_pod`` are those of the pods that are here, by uid."""

    def __init__(self) -> None:
        self.by_pod: Mapping[str, HighestUse] = {}

    def take(self, found: PodUse | None, here: Collection[str], now: float) -> None:
        """Process one reading; None if it could not tell. ``here`` are the uids of all pods of the node."""
        kept = {uid: each for uid, each in self.by_pod.items() if uid in here}
        if found is None:
            self.by_pod = kept
            return
        for uid in here:  # Also those that use nothing: they could do with the least.
            before = kept.get(uid, HighestUse({}, now))
            most = dict(before.bytes)
            for index, used in found.by_pod.get(uid, {}).items():
                most[index] = max(most.get(index, 0), used)
            kept[uid] = HighestUse(dict(sorted(most.items())), before.since)
        self.by_pod = kept
