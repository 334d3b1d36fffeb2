"""From a schedule that fails to a short one that fails in the same way: actions are left out while it still does."""

from __future__ import annotations

from dataclasses import replace

from simulation.run import AnySchedule, Outcome, run
from simulation.schedule import FIRST_S, Action
from simulation.world import Violation


def shrink(schedule: AnySchedule, violation: Violation, *, most_runs: int = 400) -> tuple[AnySchedule, int]:
    """Leave out what the violation does not need; returns the schedule and how many runs that took.

    Args:
        schedule: one that fails.
        violation: what it fails with; another invariant's does not count.
        most_runs: after so many the shortest found so far is the answer.
    """
    return _Shrinking(schedule, violation, most_runs).shrink()


class _Shrinking:
    def __init__(self, schedule: AnySchedule, violation: Violation, most_runs: int) -> None:
        self._best = schedule
        self._violation = violation
        self._left = most_runs
        self._most = most_runs

    def shrink(self) -> tuple[AnySchedule, int]:
        """Cut off what comes after and hours before, then halves, quarters and so on down to single actions."""
        self._drop_later_rounds()
        self._drop_earlier_rounds()
        size = max(1, len(self._best.actions) // 2)
        while size >= 1 and self._left > 0:
            if not self._pass(size) and size == 1:
                break
            size = max(1, size // 2) if size > 1 else 1
        return self._best, self._most - self._left

    def _drop_later_rounds(self) -> None:
        at_s = self._violation.at_s
        rounds = tuple(each for number, each in enumerate(self._best.rounds) if not number or
                       self._best.rounds[number - 1][1] < at_s)  # fmt: skip
        actions = tuple(action for action in self._best.actions if action.at_s <= at_s)
        self._try(replace(self._best, actions=actions, rounds=rounds))

    def _drop_earlier_rounds(self) -> None:
        """Begin later, with the least that still fails: the rounds that are left move to the beginning."""
        begins = [0.0, *(end_s for _, end_s in self._best.rounds[:-1])]
        for begin_s in reversed(begins[1:]):
            actions = tuple(replace(each, at_s=round(each.at_s - begin_s + FIRST_S, 3)) for each in self._best.actions
                            if each.at_s >= begin_s)  # fmt: skip
            rounds = tuple((storm_s - begin_s + FIRST_S, calm_s - begin_s + FIRST_S)
                           for storm_s, calm_s in self._best.rounds if calm_s > begin_s)  # fmt: skip
            if self._try(replace(self._best, actions=actions, rounds=rounds)):
                return

    def _pass(self, size: int) -> bool:
        """Leave out each stretch of so many actions, where that keeps the failure; whether any could be."""
        has_shrunk = False
        start = 0
        while start < len(self._best.actions) and self._left > 0:
            actions: tuple[Action, ...] = self._best.actions
            if self._try(replace(self._best, actions=actions[:start] + actions[start + size :])):
                has_shrunk = True
            else:
                start += size
        return has_shrunk

    def _try(self, candidate: AnySchedule) -> bool:
        self._left -= 1
        outcome: Outcome = run(candidate)
        found = outcome.violation
        if found is None or found.invariant != self._violation.invariant:
            return False
        self._best = candidate
        return True
