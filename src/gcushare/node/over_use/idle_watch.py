"""Find the pods that do not use their cards, after every reading, and say so by Event before anything follows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Health, InventoryCard
from gcushare.core.log_fields import fields
from gcushare.core.over_use.eviction import UNKNOWN_BYTES
from gcushare.core.over_use.idleness import IdlePod, IdleTracker, idle_text, why_it_stays
from gcushare.core.over_use.tracking import gib_text
from gcushare.core.wording import span, utc_text
from gcushare.node.api_server import Announcer
from gcushare.node.over_use.idle_settings import IdleAction, IdleSettings
from gcushare.node.pod_use import CardPolls, PodMemoryMonitor, PodUse
from gcushare.node.pods import NodePods
from gcushare.wire.annotations import IDLE_SINCE, WHEN_IDLE
from gcushare.wire.pods import is_mirror

logger = logging.getLogger(__name__)

MOST_LISTED = 64
"""EFML lists so many processes of a card at most: one with as many may have more."""


@dataclass(eq=False)
class IdleWatch:
    """``idle`` are the pods that are idle now, by uid; ``doubts`` say of others, by name, why the last reading could
    not tell; ``began`` counts since the start.

    ``exempt``: see ``decide``. The time before this program was started counts for no pod: nothing read the cards.
    """

    settings: IdleSettings
    pod_use: PodMemoryMonitor
    polls: CardPolls
    pods: NodePods
    announcer: Announcer
    _: KW_ONLY
    exempt: tuple[str, ...]
    is_rehearsing: bool
    longest_gap_s: float
    clock: Callable[[], float]
    wall_clock_s: Callable[[], float]

    def __post_init__(self) -> None:
        self.rules = self.settings.rules
        self.is_evicting = self.settings.idle is IdleAction.EVICT and not self.is_rehearsing
        self._tracker = IdleTracker(self.longest_gap_s)
        self._noted_s: dict[str, float] = {}
        self.idle: Mapping[str, IdlePod] = {}
        self.doubts: Mapping[str, str] = {}
        self.began = 0

    @property
    def notes(self) -> dict[str, str]:
        """The annotation of each idle pod."""
        return {uid: utc_text(int(each.since)) for uid, each in self.idle.items()}

    def on_poll(self) -> None:
        """Process the newest reading."""
        now_s, found = self.clock(), self.pod_use.latest
        pods = {
            uid: entry.taken_cards
            for uid, entry in self.pods.entries.items()
            if entry.taken_cards and self.rules.covers(entry.ref.namespace)
        }
        cards, problem = self.polls.snapshot, self.pod_use.problem
        doubts = {each.index: why for each in cards.cards if (why := _doubt(each, cards, found, problem))}
        users = found.users if found is not None else frozenset()
        self._tracker.take(pods, users, doubts, now_s, self.wall_clock_s())
        self.doubts = {str(self.pods.entries[uid].ref): why for uid, why in self._tracker.doubts.items()}
        before, self.idle = self.idle, self._find_idle(now_s)
        for uid, pod in self.idle.items():
            if uid not in before:
                self._announce(pod)
        for uid, pod in before.items():
            if uid not in self.idle and uid in self.pods.entries:
                words = self.doubts.get(str(pod.pod)) or "it uses a card again"
                self.announcer.about_pod(pod.pod, "IdleEnded", words, warning=False)

    def _find_idle(self, now_s: float) -> dict[str, IdlePod]:
        found, entries, wall_s = dict[str, IdlePod](), self.pods.entries, self.wall_clock_s()
        calls_idle = {
            uid
            for uid, quiet in self._tracker.quiet.items()
            if self.rules.calls_idle(now_s - quiet.since_s, wall_s - entries[uid].placed_s)
        }
        busy = {uid: str(entry.ref) for uid, entry in entries.items() if uid not in self._tracker.quiet}
        shared = [uids for uids, _ in self.pods.shared()]
        for uid in calls_idle:
            entry, quiet = entries[uid], self._tracker.quiet[uid]
            is_noted = entry.annotations.get(IDLE_SINCE) == utc_text(int(quiet.since))
            since_s = self._noted_s.setdefault(uid, now_s) if is_noted else None
            sharers = {other for uids in shared if uid in uids for other in uids} - {uid}
            found[uid] = IdlePod(
                entry.ref,
                quiet.since,
                now_s - quiet.since_s,
                None if since_s is None else now_s - since_s,
                entry.annotations.get(WHEN_IDLE, ""),
                tuple(sorted(busy[other] for other in sharers if other in busy)),
                ending=entry.ends_at_s is not None,
                is_static=is_mirror(entry.annotations),
            )
        self._noted_s = {uid: at_s for uid, at_s in self._noted_s.items() if uid in found}
        return found

    def outlook(self, pod: IdlePod) -> str:
        """What follows from a pod's idleness, or would if idle pods were evicted."""
        if why := why_it_stays(pod, self.exempt):
            return f"it stays: {why}"
        if self.is_evicting:
            keep = f"the annotation {WHEN_IDLE}=keep"
            return f"it is evicted in {span(self.rules.notice_s)} unless it uses a card or has {keep}"
        return "nothing follows; --idle evict would evict it"

    def _announce(self, pod: IdlePod) -> None:
        self.began += 1
        words = f"{idle_text(pod.since)}: {self.outlook(pod)}"
        self.announcer.about_pod(pod.pod, "Idle", words, warning=False)
        logger.info("idle: %s %s", words, fields(pod=pod.pod, uid=pod.pod.uid))


def _doubt(card: InventoryCard, cards: CardsSnapshot, found: PodUse | None, problem: str) -> str:
    """Why the reading does not show every user of a card; "" if it does."""
    index, use = card.index, cards.uses.get(card.index)
    if index in cards.gone:
        return f"card {index} is not listed any more"
    if use is None or index in cards.unread:
        return f"the last reading of card {index} failed"
    if card.health is not Health.HEALTHY:
        return f"card {index} is sick: {card.reason}"
    if found is None:
        return problem or "which processes are of which pod was not read yet"
    if found.unclear is None or use.processes is None:
        return f"the processes on card {index} are not listed"
    if index in found.unclear:
        return f"a process on card {index} ended before its pod was found"
    if found.outside.get(index, 0) >= UNKNOWN_BYTES:
        return f"{gib_text(found.outside[index])} of card {index} are in use by processes of no known pod"
    if len(use.processes) >= MOST_LISTED:
        return f"card {index} has {len(use.processes)} processes, and there may be more than are listed"
    if use.utilization_percent and not use.processes:
        return f"the chip of card {index} was used, and no process is listed"
    return ""
