"""Is a card sick? Hysteresis over the readings and events of one card; pure, time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from gcushare.cards.ports import HealthReading


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """How much evidence turns a card sick, and how much makes it well again."""

    bad_readings: int = 3
    """Bad readings in a row before a card is sick: one driver hiccup moves no pods. A conclusive one suffices."""
    good_readings: int = 3
    """Good readings in a row before a sick card is well."""
    recover_after_s: float = 30.0
    """How long the good readings must last: a card that comes and goes stays sick."""
    event_holds_s: float = 300.0
    """How long a critical event counts whatever readings say: after most, reads still succeed for a while."""
    stale_after_s: float = 60.0
    """How long the last reading holds while the library as a whole does not answer."""


_WELL = HealthReading(healthy=True)


class HealthTracker:
    """One card's state: well until the first reading, which decides alone. ``verdict`` is the state, and why.

    ``now_s`` are seconds of any one clock.
    """

    def __init__(self, policy: HealthPolicy) -> None:
        self._policy = policy
        self._bad_in_a_row = 0
        self._good_in_a_row = 0
        self._good_since_s = 0.0
        self._held_until_s = float("-inf")
        self._last_reading_s: float | None = None
        self.verdict = _WELL

    def observe(self, reading: HealthReading, now_s: float) -> HealthReading:
        """Take a reading in; return the verdict after it."""
        is_first = self._last_reading_s is None
        self._last_reading_s = now_s
        if reading.healthy:
            self._note_good(now_s, decides=reading.conclusive)
        else:
            self._note_bad(reading.reason, decides=is_first or reading.conclusive)
        return self.verdict

    def strike(self, reason: str, now_s: float) -> HealthReading:
        """Take a critical event in: the card is sick at once, and for a while whatever readings say."""
        self._held_until_s = now_s + self._policy.event_holds_s
        self._note_bad(reason, decides=True)
        return self.verdict

    def miss(self, reason: str, now_s: float) -> HealthReading:
        """Note that the card could not be read: the last reading holds for a while, then the card counts as sick."""
        stale_after_s = self._policy.stale_after_s
        if self._last_reading_s is None or now_s - self._last_reading_s >= stale_after_s:
            self._note_bad(f"no answer for {stale_after_s:g}s: {reason}", decides=True)
        return self.verdict

    def _note_good(self, now_s: float, *, decides: bool) -> None:
        self._bad_in_a_row = 0
        if self.verdict.healthy:
            return
        if self._good_in_a_row == 0:
            self._good_since_s = now_s
        self._good_in_a_row += 1
        is_enough = self._good_in_a_row >= self._policy.good_readings
        lasted = now_s - self._good_since_s >= self._policy.recover_after_s
        if (decides or (is_enough and lasted)) and now_s >= self._held_until_s:
            self.verdict = _WELL

    def _note_bad(self, reason: str, *, decides: bool) -> None:
        self._good_in_a_row = 0
        self._bad_in_a_row += 1
        if decides or not self.verdict.healthy or self._bad_in_a_row >= self._policy.bad_readings:
            self.verdict = HealthReading(healthy=False, reason=reason)
