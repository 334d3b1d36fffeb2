"""For each bug that can be planted, what it violates and a storm in which it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from simulation.drawing import make_schedule
from simulation.schedule import OUR_LEASE, Action, Schedule

from gcushare.device_plugin.plugin_settings import GrantMode

ONE_CARD_GIVEN_TWICE = "recorded units of a card are never above its size"
KUBELETS_ARE_RECORDED = "what a kubelet holds is in the ledger"
PODS_ARE_BOUND = "a pod that fits is bound within a bound"
LEDGER_IS_TRUE = "the ledger equals the API server's truth within a bounded lag"

EXTENDERS = ("extender-0", "extender-1", "extender-2")
TWO_CARDS = ((8, 8),)
EIGHT_CARDS = ((8,) * 8,)


@dataclass(frozen=True)
class Storm:
    """What a bug violates, and the actions that bring it about on these nodes."""

    invariant: str
    actions: tuple[Action, ...]
    nodes: tuple[tuple[int, ...], ...] = TWO_CARDS
    mode: GrantMode = GrantMode.MEMORY
    length_s: float = 140.0
    has_limits: bool = False
    seed: int = 0
    """Of everything else that is drawn, such as which answers are lost."""

    def schedule(self, planted: str = "") -> Schedule:
        """A run of only these actions, in the order of their times, with a bug; calm comes after the length."""
        drawn = make_schedule(0, rounds=1, planted=planted)
        settings = replace(
            drawn.settings, nodes=self.nodes, vendor="enflame", mode=self.mode, old_scheduler=False, clock_drift=0.0,
            replicas=len(EXTENDERS), lease=OUR_LEASE, has_limits=self.has_limits, seed=self.seed,
        )  # fmt: skip
        ordered = tuple(sorted(self.actions, key=lambda action: action.at_s))
        return replace(drawn, settings=settings, actions=ordered, rounds=((self.length_s, self.length_s + 130.0),))


def planned(actions: tuple[Action, ...], planted: str = "") -> Schedule:
    """A run of only these actions."""
    return Storm("", actions).schedule(planted)


def create(at_s: float, name: str, units: int, grace: int = 1, apart: str = "") -> Action:
    """A pod of one container."""
    args: dict[str, Any] = {"whole": 0, "init": 0, "priority": 0, "grace": grace, "zone": "", "apart": apart}
    return Action(at_s, "create", {"name": name, "units": [units], **args})


def create_whole(at_s: float, name: str, cards: int, init: int = 0) -> Action:
    """A pod of so many whole cards, and an init container of others."""
    args: dict[str, Any] = {"whole": cards, "init": init, "priority": 0, "grace": 1, "zone": ""}
    return Action(at_s, "create", {"name": name, "units": [], **args})


def created(count: int, units: int) -> tuple[Action, ...]:
    """So many pods, one a second."""
    return tuple(create(30.0 + number, f"p{number}", units) for number in range(count))


def weather(at_s: float, for_s: float, **odds: float) -> list[Action]:
    """The same for every extender."""
    return [Action(at_s, "weather", {"process": name, "odds": odds, "for_s": for_s}) for name in EXTENDERS]


def expire(*times_s: float) -> list[Action]:
    """Every extender has to list again."""
    return [Action(at_s, "expire", {"process": name}) for at_s in times_s for name in EXTENDERS]


def late_lists() -> tuple[Action, ...]:
    """Lists come late, one after the other, while pods come and go whose Bindings' answers are lost."""
    actions = weather(40.0, 100.0, reset_binding=0.6, page_s=10.0, lag_s=20.0) + expire(*range(41, 130, 2))
    for turn in range(4):
        begin_s = 42.0 + 24.0 * turn
        actions += [create(begin_s + 2 * number, f"p{turn}-{number}", 8, grace=0) for number in range(8)]
        actions += [Action(begin_s + 18 + 0.1 * number, "delete", {"which": 0.0}) for number in range(8)]
    return tuple(actions)


def pods_gone_while_in_doubt() -> tuple[Action, ...]:
    """Nothing reaches the API server, and what happens to the pods meanwhile is compacted before the watches return."""
    actions = weather(40.0, 15.0, lost_before=1.0) + expire(48.0, 50.0)
    actions += [create(41.2 + 0.3 * number, f"p{number}", 4) for number in range(4)]
    return (*actions, *(Action(48.5 + 0.1 * number, "force", {"which": 0.0}) for number in range(4)))


def room_heard_of_late() -> tuple[Action, ...]:
    """The scheduler hears that a pod is gone, asks, and is refused: the extenders' watches are behind."""
    return (*created(3, 8), *weather(40.0, 40.0, lag_s=20.0), Action(50.0, "force", {"which": 0.0}))


def led_by_one_that_missed_it() -> tuple[Action, ...]:
    """Two replicas hear no more of what the third binds, which then ends: one of them has to lead.

    The two were killed before, so that the third is the leader.
    """
    behind = EXTENDERS[1:]
    return (
        *(Action(21.0, "kill", {"process": name, "steps": 0, "for_s": 15.0}) for name in behind),
        *(Action(55.0, "half open", {"process": name}) for name in behind),
        *(create(56.0 + 0.1 * number, f"p{number}", 8) for number in range(4)),
        Action(60.0, "roll out extender", {"process": EXTENDERS[0], "for_s": 20.0}),
        *(create(65.0 + 0.1 * number, f"q{number}", 8) for number in range(4)),
    )


STORMS = {
    "applies old state": Storm(ONE_CARD_GIVEN_TWICE, late_lists(), EIGHT_CARDS, seed=1),
    "forgets reservations": Storm(ONE_CARD_GIVEN_TWICE, late_lists(), EIGHT_CARDS, seed=1),
    "leads uncurrent": Storm(ONE_CARD_GIVEN_TWICE, led_by_one_that_missed_it(), EIGHT_CARDS),
    "never settles": Storm(LEDGER_IS_TRUE, pods_gone_while_in_doubt()),
    "never wakes": Storm(PODS_ARE_BOUND, room_heard_of_late()),
    "leads too long": Storm(
        "one leader serves",
        tuple(Action(40.0 + 30 * n, "pause", {"process": name, "for_s": 14.0}) for n, name in enumerate(EXTENDERS)),
    ),
    "dies of a name": Storm("no process ends by any input", (create(30.0, "p7", 1),)),
    "leaks tasks": Storm("nothing leaks", created(16, 1)),
    "starts unlimited": Storm("no process runs without its limit", created(2, 4), has_limits=True),
    "limits twice": Storm("no limit is above what the ledger counts", created(2, 4), has_limits=True),
    "gives twice": Storm("an id is given once", created(4, 4)),
    "refuses without reasons": Storm("every refused pod has a reason", created(3, 5)),
    "never corrects": Storm(
        KUBELETS_ARE_RECORDED,
        (Action(30.0, "ignore preference", {"node": 0, "for_s": 60.0}), create(31.0, "p1", 2)),
    ),
    "forgets apart": Storm(
        "pods that are kept apart share no card",
        tuple(create(30.0 + 10 * n, f"p{n}", 2, apart="web") for n in range(2)),
    ),
    "forgets init cards": Storm(
        "a correct record is left alone",
        (Action(29.0, "ignore preference", {"node": 0, "for_s": 5.0}), create_whole(30.0, "p1", 1, init=2)),
        EIGHT_CARDS,
        mode=GrantMode.BOTH,
        length_s=600.0,
    ),
    "refuses all": Storm(PODS_ARE_BOUND, (create(30.0, "p1", 8),)),
    "keeps the dead": Storm(
        LEDGER_IS_TRUE,
        (*created(6, 2), *(Action(60.0 + number, "force", {"which": 0.0}) for number in range(6))),
    ),
}
