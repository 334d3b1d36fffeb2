"""Which pods use more of a card than they may, and for how long: polls go in, changes come out. Pure.

A pod is *over* on a card after several polls in a row above what it may use and a tolerance. It is no longer over after
as many polls within, so a pod that moves around the threshold has one over-use, not many. A poll without figures
changes nothing until `UNKNOWN_POLLS` of them in a row make the last figures too old.

A pod may use its grant. One with a limit above its grant may *burst*: it may use up to its limit, except while a grant
of the card is in danger.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gcushare.core.units import GIB

Place = tuple[str, int]
"""A pod's uid and the index of a card that it uses."""

UNKNOWN_POLLS = 12
"""So many polls in a row without figures end an over-use: a minute at the usual five seconds."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much above its grant a pod may be: a share of the grant, or a fixed amount if that is more."""

    share_percent: float
    least_bytes: int

    def limit_of(self, granted_bytes: int) -> int:
        """The bytes above which a pod with this grant is over."""
        return granted_bytes + max(self.least_bytes, int(granted_bytes * self.share_percent / 100))


@dataclass(frozen=True, slots=True)
class PolledUse:
    """One pod on one card at one poll, in bytes. ``granted`` is 0 on a card that it does not hold.

    ``limit``: what the pod may use while no other pod needs it; 0 if only its grant. ``by_driver``: the driver counts
    what is in use.
    """

    used: int
    granted: int
    limit: int = 0
    by_driver: bool = False

    @property
    def can_burst(self) -> bool:
        """Whether the pod may use more than its grant for a while."""
        return self.limit > self.granted

    @property
    def excess(self) -> int:
        """Bytes beyond the grant, of what is in use at the poll."""
        return max(0, self.used - self.granted)


@dataclass(frozen=True, slots=True)
class OverUse:
    """That a pod is over. ``since``: seconds since the epoch of the first poll above the limit; ``peak``: the most."""

    figures: PolledUse
    since: float
    peak: int


class OverUseChangeKind(enum.Enum):
    """What became of a pod on a card."""

    BEGAN = "began"
    ENDED = "ended"
    """It is within its grant again, or gave the card up."""
    UNKNOWN = "unknown"
    """Its use has not been known for `UNKNOWN_POLLS`."""


@dataclass(frozen=True, slots=True)
class OverUseChange:
    """One change; ``over_use`` is what was known when it began or ended."""

    kind: OverUseChangeKind
    place: Place
    over_use: OverUse


@dataclass(slots=True)
class _Streak:
    """The polls in a row that say the same of a place: above its limit, or within it."""

    is_above: bool
    polls: int
    first: float
    peak: int
    unknown: int = 0


class OverUseTracker:
    """Follows every pod on every card. ``over``: the pods that are over now; ``polls``: how many were processed."""

    def __init__(self, tolerance: Tolerance, polls: int) -> None:
        self.tolerance = tolerance
        self._needed = polls
        self._streaks: dict[Place, _Streak] = {}
        self.over: dict[Place, OverUse] = {}
        self.polls = 0
        self._blind_polls = 0
        """Those of them that could not read every card."""

    @property
    def has_enough_polls(self) -> bool:
        """Whether the polls show which pods are over. Before, the annotations of an earlier over-use stay as they are.

        A poll that could not read every card does not count, until there were `UNKNOWN_POLLS` of them.
        """
        return self.polls - self._blind_polls >= self._needed or self._blind_polls >= UNKNOWN_POLLS

    @property
    def is_first_word(self) -> bool:
        """Whether the last poll was the first that could say that a pod is over."""
        return self.polls - self._blind_polls == self._needed and self._blind_polls < UNKNOWN_POLLS

    def take(
        self,
        found: Mapping[Place, PolledUse],
        alive: Collection[str],
        now: float,
        *,
        is_blind: bool = False,
        tight: Collection[int] = (),
    ) -> list[OverUseChange]:
        """Process one poll: figures of the places that could be read, and the uids of all pods of the node.

        A pod that is gone is removed without a change. ``now`` is in seconds since the epoch. ``is_blind``: not every
        card could be read. ``tight``: the cards on which a grant is in danger, so that no pod may burst.
        """
        self.polls += 1
        self._blind_polls += is_blind
        self._streaks = {place: streak for place, streak in self._streaks.items() if place[0] in alive}
        self.over = {place: over for place, over in self.over.items() if place[0] in alive}
        changes = [
            change
            for place, figures in found.items()
            if (change := self._update(place, figures, now, is_tight=place[1] in tight)) is not None
        ]
        for place in self._streaks.keys() - found.keys():
            streak = self._streaks[place]
            streak.unknown += 1
            if streak.unknown >= UNKNOWN_POLLS:
                del self._streaks[place]
                if (was := self.over.pop(place, None)) is not None:
                    changes.append(OverUseChange(OverUseChangeKind.UNKNOWN, place, was))
        return changes

    def adopt(self, place: Place, since: float) -> None:
        """Keep an earlier time, which the pod's annotation has from before this program was started."""
        over = self.over.get(place)
        if over is not None and since < over.since:
            self.over[place] = replace(over, since=since)

    def _update(self, place: Place, figures: PolledUse, now: float, *, is_tight: bool) -> OverUseChange | None:
        may_use = figures.limit if figures.can_burst and not is_tight else figures.granted
        is_above = figures.used > self.tolerance.limit_of(may_use)
        streak = self._streaks.get(place)
        if streak is None or streak.is_above != is_above:
            streak = self._streaks[place] = _Streak(is_above, 0, now, 0)
        streak.polls += 1
        streak.unknown = 0
        streak.peak = max(streak.peak, figures.used)
        was = self.over.get(place)
        if was is not None:
            self.over[place] = replace(was, figures=figures, peak=max(was.peak, figures.used))
        if streak.polls < self._needed or is_above == (was is not None):
            return None
        if is_above:
            began = self.over[place] = OverUse(figures, streak.first, streak.peak)
            return OverUseChange(OverUseChangeKind.BEGAN, place, began)
        return OverUseChange(OverUseChangeKind.ENDED, place, self.over.pop(place))


def gib_text(size: int) -> str:
    """Format bytes as GiB, to a hundredth."""
    return f"{size / GIB:.2f} GiB"


def describe_over_use(index: int, figures: PolledUse) -> str:
    """Say what a pod uses of a card, with both numbers."""
    granted = gib_text(figures.granted) if figures.granted else "nothing"
    limit = f", limit {gib_text(figures.limit)}" if figures.can_burst else ""
    source = " by the driver's count" if figures.by_driver else ""
    return f"{gib_text(figures.used)} of card {index} in use{source}, {granted} granted{limit}"
