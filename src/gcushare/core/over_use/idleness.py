"""Which pods hold cards and do not use them, since when, and which of them is evicted for it, if any. Pure.

A pod is *quiet* in a reading of the cards if no process of it is on any card, and nothing may have used its cards
unseen. It is *idle* once every reading of a whole time was quiet. A reading that is missing, or that cannot tell, ends
that time as a busy one does: what is not known is not idle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gcushare.core.over_use.eviction import Decision, Evictable, why_not_evictable
from gcushare.core.wording import span, utc_text

NOTICE_S = 300.0
KEEP, EVICT = "keep", "evict"
"""What a pod's author may write: it stays, or it may be evicted although no controller would create it again."""
_RECREATING = ("ReplicaSet ", "ReplicationController ", "StatefulSet ", "Job ")
"""The controllers that create a pod again after its eviction. Others may fail their whole workflow for it."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """The first of a pod's quiet readings in a row: ``since`` the epoch, and ``since_s`` on the caller's clock."""

    since: float
    since_s: float


class IdleTracker:
    """Follows the pods that hold cards. ``quiet`` are those whose last reading was, by uid.

    ``doubts`` say of a pod why the last reading could not tell. ``longest_gap_s``: readings further apart than this
    leave a time that nothing is known about.
    """

    def __init__(self, longest_gap_s: float) -> None:
        self._longest_gap_s = longest_gap_s
        self._last_s = float("-inf")
        self.quiet: Mapping[str, Quiet] = {}
        self.doubts: Mapping[str, str] = {}

    def take(
        self,
        pods: Mapping[str, Collection[int]],
        users: Collection[str],
        doubts: Mapping[int, str],
        now_s: float,
        wall_s: float,
    ) -> None:
        """Process one reading: the cards of each pod, the pods with a process on any card, and why cards are in doubt.

        ``doubts`` has every card whose users the reading does not show all. The times are of a steady clock
        and in seconds since the epoch.
        """
        has_gap = now_s - self._last_s > self._longest_gap_s
        self._last_s = now_s
        before = {} if has_gap else self.quiet
        self.doubts = {
            uid: why
            for uid, cards in pods.items()
            if uid not in users and (why := next((doubts[index] for index in sorted(cards) if index in doubts), ""))
        }
        self.quiet = {
            uid: before.get(uid, Quiet(wall_s, now_s))
            for uid, cards in pods.items()
            if cards and uid not in users and uid not in self.doubts
        }


@dataclass(frozen=True, slots=True)
class IdlePod(Evictable):
    """A pod that is idle. ``since`` in seconds since the epoch.

    ``noted_s``: how long it has had the annotation, None while it has not. ``wish``: what its author wrote, "" for
    nothing. ``sharers``: other pods of its claims that are not idle, so that its memory would stay in use.
    """

    since: float
    idle_s: float
    noted_s: float | None = None
    wish: str = ""
    sharers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IdleRules:
    """Pods are idle after ``after_s`` of quiet readings, if they are ``least_age_s`` old, in these namespaces."""

    after_s: float
    least_age_s: float
    namespaces: tuple[str, ...] = ("*",)

    @property
    def notice_s(self) -> float:
        """How long a pod has had the annotation that calls it idle before it is evicted: its author may keep it."""
        return min(NOTICE_S, self.after_s)

    def covers(self, namespace: str) -> bool:
        """Whether pods of a namespace are judged at all."""
        return any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)

    def calls_idle(self, quiet_s: float, age_s: float) -> bool:
        """Whether so much quiet makes a pod of this age idle."""
        return quiet_s >= self.after_s and age_s >= self.least_age_s


def why_it_stays(pod: IdlePod, exempt: Iterable[str]) -> str:
    """Why an idle pod is never evicted as it is now; "" if it may be."""
    if why := why_not_evictable(pod, exempt):
        return why
    if pod.wish == KEEP:
        return "its author keeps it"
    if pod.wish not in ("", EVICT):
        return f"its author's wish {pod.wish[:40]!r} is neither {KEEP} nor {EVICT}, and counts as {KEEP}"
    controller = pod.pod.controller
    if controller.startswith("DaemonSet "):
        return f"{controller} would create it again at once, on the same node"
    if not controller.startswith(_RECREATING) and pod.wish != EVICT:
        return f"it is not known that {controller} creates it again" if controller else "no controller creates it again"
    if pod.sharers:
        return f"it shares its memory with {', '.join(pod.sharers[:3])}, which uses the card"
    return ""


def decide_idle(
    pods: Iterable[IdlePod], rules: IdleRules, exempt: Iterable[str] = (), *, pausing: str = ""
) -> Decision[IdlePod]:
    """Choose the idle pod of the lowest priority that has been idle longest; ``pausing`` is why none can go now."""
    passed_over: dict[str, str] = {}
    able: list[IdlePod] = []
    for each in pods:
        why = why_it_stays(each, exempt)
        if not why and (each.noted_s is None or each.noted_s < rules.notice_s):
            left_s = rules.notice_s - (each.noted_s or 0.0)
            why = f"its annotation gives its author {span(left_s)} more to keep it"
        if why := why or pausing:
            passed_over[str(each.pod)] = why
        else:
            able.append(each)
    if not able:
        return Decision(None, "", passed_over)
    victim, *others = sorted(able, key=lambda each: (each.pod.priority, each.since, each.pod.uid))
    passed_over |= {str(each.pod): f"after {victim.pod}: one at a time" for each in others}
    return Decision(victim, idle_text(victim.since), passed_over)


def idle_text(since: float) -> str:
    """What is true of an idle pod."""
    return f"no process of it was on a card, and nothing used its cards unseen, since {utc_text(int(since))}"
