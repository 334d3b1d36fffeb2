"""Draws a run from its seed before it begins, users, admins and faults alike, so that any action may be left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from gcushare.device_plugin.plugin_settings import GrantMode
from simulation.forgeries import draw_forgeries, draw_mirrors
from simulation.schedule import FIRST_S, OUR_LEASE, USUAL_LEASE, Action, Schedule, Settings

STORM_S = (60.0, 300.0)
CALM_S = 130.0
"""Longer than a half-open watch stays unnoticed, and what follows from it."""
HOUR_S = 3600.0
ROUNDS = 3

USERS = {"create": 10.0, "delete": 5.0, "force": 1.0, "finish": 1.5, "recreate": 1.0, "edit": 0.4}
ADMINS = {"cordon card": 0.5, "uncordon cards": 0.5, "cordon node": 0.3, "uncordon node": 0.4, "relabel": 0.3,
          "change unit": 0.15, "roll out extender": 0.2, "roll out plugin": 0.3}  # fmt: skip
FAULTS = {
    "weather": 6.0,
    "half open": 1.5,
    "cut": 3.0,
    "expire": 3.0,
    "compact": 1.0,
    "restart api": 0.3,
    "slow view": 1.0,
    "pause": 2.0,
    "kill": 3.0,
    "jump": 0.5,
    "restart kubelet": 0.8,
    "restart scheduler": 0.5,
    "sick card": 1.0,
    "lose card": 0.6,
    "silent library": 0.4,
    "silent podresources": 0.4,
    "ignore preference": 0.5,
}
LONG_FAULTS = {"refuse writes"}
"""Those that calm does not end."""
LIMIT_FAULTS = {"reload driver", "reboot node"}
"""Where the driver limits memory: every process that used it ends; only a reboot takes the groups, too."""
NUMBER_FAULTS = {"renumber"}
"""A driver that lists the cards in another order."""
QUIET_USERS = {**USERS, "create": 7.0, "delete": 7.0}
"""As many go as come: in hours, pods that find no room would else only become more."""
STORM = ((USERS, (0.3, 1.0, 4.0)), (ADMINS, (20.0, 60.0, 400.0)), (FAULTS, (0.7, 2.0, 6.0, 100.0)))
QUIET = ((QUIET_USERS, (30.0, 120.0, 600.0)), (ADMINS, (900.0, 3600.0)), (FAULTS, (120.0, 600.0, 3600.0)))
Paces: TypeAlias = tuple[tuple[dict[str, float], tuple[float, ...]], ...]
"""What happens in a stretch, and how many seconds apart on average: one of these for each stretch."""


def make_schedule(seed: int, *, rounds: int = ROUNDS, quiet_hours: int = 0, planted: str = "") -> Schedule:
    """Draw a run: storms, each followed by calm and then by hours in which little happens, with a calm in each."""
    rng = random.Random(seed)
    sizes = [4, 8, 16]
    nodes = tuple(tuple(rng.choice(sizes) for _ in range(rng.choice([1, 2, 3]))) for _ in range(rng.choice([1, 2, 3])))
    settings = Settings(
        seed=seed,
        nodes=nodes,
        vendor=rng.choice(["enflame", "enflame", "aliyun"]),
        mode=rng.choice([GrantMode.MEMORY, GrantMode.MEMORY, GrantMode.BOTH]),
        old_scheduler=rng.random() < 0.3,
        clock_drift=rng.choice([0.0, 0.0005, 0.01]),
        wall_skew_s=rng.choice([0.0, 5.0, 3600.0]),
        card_poll_s=rng.choice([1.0, 5.0, 5.0, 20.0]),
        node_policy=rng.choice(["binpack", "spread"]),
        page_size=rng.choice([2, 10, 250]),
        best=rng.choice([20, 1, None]),
        replicas=rng.choice([2, 2, 3]),
        lease=rng.choice([OUR_LEASE, USUAL_LEASE]),
        has_policies=random.Random(f"{seed}/policies").random() < 0.5,
    )
    if settings.vendor == "aliyun" and random.Random(f"{seed}/limits").random() < 0.6:
        settings = replace(settings, has_limits=True)
    if random.Random(f"{seed}/default policy").random() < 0.5:  # apart from the other draws, as has_policies
        settings = replace(settings, node_policy="expected-fill")
    actions: list[Action] = []
    ends: list[tuple[float, float]] = []
    now_s = FIRST_S
    drawing = _Drawing(rng, settings)
    for _ in range(rounds):
        stretches = [(rng.uniform(*STORM_S), drawing.storm), *[(HOUR_S - CALM_S, drawing.quiet)] * quiet_hours]
        for length_s, draw in stretches:
            end_s = now_s + length_s
            # What follows from something late in a stretch, or was rounded, still happens in it: calm is calm.
            latest_s = round(end_s - 0.001, 3)
            drawn = [replace(each, at_s=max(now_s, min(each.at_s, latest_s))) for each in draw(now_s, end_s)]
            actions += sorted(drawn, key=lambda action: action.at_s)
            ends.append((end_s, end_s + CALM_S))
            now_s += length_s + CALM_S
    return Schedule(settings, tuple(actions), tuple(ends), planted)


class _Drawing:
    """Draws actions."""

    def __init__(self, rng: random.Random, settings: Settings) -> None:
        self._rng = rng
        self._settings = settings
        self._rare = random.Random(f"{settings.seed}/rare")
        """Of its own, so that what was drawn before there was any of this is drawn still."""
        self._apart = random.Random(f"{settings.seed}/apart")
        self._forged = random.Random(f"{settings.seed}/forged")
        self._limited = random.Random(f"{settings.seed}/limit faults")
        self._renumbered = random.Random(f"{settings.seed}/renumber")
        self._mirrors = random.Random(f"{settings.seed}/mirrors")
        self._names = 0
        self._processes = [
            *(f"extender-{n}" for n in range(settings.replicas)),
            *(f"plugin/node-{n}" for n in range(len(settings.nodes))),
        ]
        self._args = self._make_args(rng.choice)

    def _make_args(self, one_of: Callable[[Sequence[Any]], Any]) -> dict[str, Callable[[], dict[str, Any]]]:
        """How to draw what each kind of thing is about."""
        rng, which, node, card, process = self._rng, self._which, self._node, self._card, self._process
        for_s, silent = self._duration, self._silent
        units = ["1", "0.1", None] if self._settings.vendor == "enflame" else ["GiB", None]
        steps = [0, 1, 2, 3, 5, 8, 13, 30, 100]
        return {
            "create": self._create, "delete": which, "force": which, "recreate": which,
            "edit": lambda: {**which(), "card": one_of(["0", "1", "9", "x", None])},
            "finish": lambda: {**which(), "phase": one_of(["Succeeded", "Failed"])},
            "cordon card": card, "uncordon cards": node, "cordon node": node, "uncordon node": node,
            "relabel": lambda: {**node(), "zone": one_of(["a", "b"])},
            "change unit": lambda: {**node(), "unit": one_of(units)},
            "roll out extender": lambda: {"process": self._replica(), "for_s": one_of([0.5, 3.0])},
            "roll out plugin": lambda: {"process": f"plugin/node-{node()['node']}", "for_s": one_of([0.5, 3.0, 20.0])},
            "weather": self._weather, "half open": process, "cut": process, "expire": process,
            "compact": lambda: {"keep": one_of([0, 5, 50])},
            "restart api": lambda: {"for_s": one_of([0.2, 2.0, 20.0])},
            "slow view": lambda: {"of": one_of(["scheduler", "kubelet"]), "lag_s": one_of([0.5, 3.0]), **for_s()},
            "pause": lambda: {**process(), "for_s": one_of([0.2, 2.0, 7.0, 12.0, 40.0])},
            "kill": lambda: {**process(), "steps": one_of(steps), "for_s": one_of([0.1, 1.0, 5.0, 15.0])},
            "jump": lambda: {**process(), "by_s": one_of([-86400.0, -3.0, 3.0, 86400.0])},
            "restart kubelet": lambda: {**node(), "for_s": one_of([0.1, 2.0, 15.0]), "loses": rng.random() < 0.15},
            "restart scheduler": lambda: {"for_s": one_of([0.1, 2.0, 10.0])},
            "sick card": lambda: {**card(), **for_s()}, "lose card": lambda: {**card(), **for_s()},
            "silent library": silent, "silent podresources": silent, "ignore preference": silent,
        }  # fmt: skip

    def storm(self, from_s: float, until_s: float) -> Iterator[Action]:
        """Everything of some minutes in which much goes wrong."""
        if self._rng.random() < 0.35:
            yield from self._stale_lists(from_s, until_s)
        elif self._rng.random() < 0.35:
            yield from self._late_lists(from_s, until_s)
        elif self._rng.random() < 0.35:
            yield from self._missed_terms(from_s, until_s)
        yield from self._stretch(from_s, until_s, STORM)
        yield from self._policies(from_s, until_s)
        yield from draw_forgeries(self._forged, self._settings, from_s, until_s)
        yield from self._limit_faults(from_s, until_s)
        yield from self._renumberings(from_s, until_s)
        yield from draw_mirrors(self._mirrors, self._settings, from_s, until_s)

    def quiet(self, from_s: float, until_s: float) -> Iterator[Action]:
        """Everything of an hour in which little happens; sometimes people tidy up first."""
        for _ in range(self._rng.choice([0, 40, 160])):
            yield Action(round(from_s + 300.0 * self._rng.random(), 3), "delete", self._args["delete"]())
        yield from self._stretch(from_s, until_s, QUIET)
        yield from self._policies(from_s, until_s)

    def _stretch(self, from_s: float, until_s: float, what: Paces) -> Iterator[Action]:
        """Each stretch has a pace of its own for each kind of trouble."""
        rng = self._rng
        for table, paces_s in what:
            pace_s = rng.choice(paces_s)
            # Some kinds only: a fault is met by more states where others are left out.
            kinds = {kind: weight for kind, weight in table.items() if rng.random() < 0.7} or table
            at_s = from_s + rng.expovariate(1 / pace_s)
            while at_s < until_s:
                kind = rng.choices(list(kinds), list(kinds.values()))[0]
                yield Action(round(at_s, 3), kind, self._args[kind]())
                at_s += rng.expovariate(1 / pace_s)

    def _policies(self, from_s: float, until_s: float) -> Iterator[Action]:
        """In some stretches, somebody's policy refuses writes to a tenth of the pods, for up to hours."""
        rng = self._rare
        if rng.random() < 0.3:
            args = {"last": str(rng.randrange(10)), "for_s": rng.choice([60.0, 1800.0, 9000.0])}
            yield Action(round(rng.uniform(from_s, until_s), 3), "refuse writes", args)

    def _limit_faults(self, from_s: float, until_s: float) -> Iterator[Action]:
        rng = self._limited
        for _ in range(rng.choice([0, 1, 4]) if self._settings.has_limits else 0):
            args = {"node": rng.randrange(len(self._settings.nodes)), "for_s": rng.choice([0.5, 5.0, 30.0])}
            yield Action(round(rng.uniform(from_s, until_s), 3), rng.choice(sorted(LIMIT_FAULTS)), args)

    def _renumberings(self, from_s: float, until_s: float) -> Iterator[Action]:
        rng = self._renumbered
        for _ in range(rng.choice([0, 2, 6])):
            node = rng.randrange(len(self._settings.nodes))
            slots = list(range(len(self._settings.nodes[node])))
            order = rng.sample(slots, rng.choice([len(slots), len(slots), max(1, len(slots) - 1)]))
            args = {"node": node, "order": order, "boots": rng.random() < 0.5, "for_s": rng.choice([2.0, 20.0, 60.0])}
            yield Action(round(rng.uniform(from_s, until_s), 3), "renumber", args)

    def _stale_lists(self, from_s: float, until_s: float) -> Iterator[Action]:
        """Answers get lost, and lists are begun again and take long: what is read is older than what was known."""
        rng = self._rng
        odds = {rng.choice(["lost_after", "reset_after"]): rng.choice([0.1, 0.4]), "page_s": rng.choice([3.0, 10.0]),
                "lag_s": rng.choice([0.2, 3.0])}  # fmt: skip
        at_s = from_s
        while at_s < until_s:
            process = self._replica()
            for_s = rng.uniform(5.0, 30.0)
            yield Action(round(at_s, 3), "weather", {"process": process, "odds": odds, "for_s": round(for_s, 3)})
            for _ in range(3):
                yield Action(round(at_s + for_s * rng.random(), 3), "expire", {"process": process})
            at_s += rng.expovariate(1 / 4.0)

    def _late_lists(self, from_s: float, until_s: float) -> Iterator[Action]:
        """Only Bindings' answers get lost, whose pods are then read; lists succeed and are older than that."""
        rng = self._rng
        odds = {"reset_binding": rng.choice([0.3, 0.7]), "page_s": rng.choice([3.0, 10.0]),
                "lag_s": rng.choice([3.0, 20.0])}  # fmt: skip
        pace_s = rng.choice([4.0, 12.0])
        for number in range(self._settings.replicas):
            process = f"extender-{number}"
            yield Action(from_s, "weather", {"process": process, "odds": odds, "for_s": round(until_s - from_s, 3)})
            at_s = from_s + rng.expovariate(1 / pace_s)
            while at_s < until_s:
                yield Action(round(at_s, 3), "expire", {"process": process})
                at_s += rng.expovariate(1 / pace_s)

    def _missed_terms(self, from_s: float, until_s: float) -> Iterator[Action]:
        """One replica ends; those that are left have heard nothing of what it bound last, and pods go on coming."""
        rng = self._rng
        names = [f"extender-{number}" for number in range(self._settings.replicas)]
        pace_s = rng.choice([10.0, 40.0])
        at_s = from_s + rng.expovariate(1 / pace_s)
        while at_s < until_s:
            ends, end_s = rng.choice(names), at_s + rng.uniform(1.0, 8.0)
            for name in names:
                if name != ends:
                    yield Action(round(at_s, 3), "half open", {"process": name})
            for _ in range(rng.choice([2, 6])):
                yield Action(round(rng.uniform(at_s, end_s + 8.0), 3), "create", self._create())
            how: dict[str, Any] = rng.choice([{}, {"steps": 0}])
            args = {"process": ends, **how, "for_s": rng.choice([3.0, 30.0])}
            yield Action(round(end_s, 3), "kill" if how else "roll out extender", args)
            at_s = end_s + rng.expovariate(1 / pace_s)

    def _replica(self) -> str:
        return f"extender-{self._rng.randrange(self._settings.replicas)}"

    def _create(self) -> dict[str, Any]:
        rng = self._rng
        self._names += 1
        whole = self._settings.mode is GrantMode.BOTH and rng.random() < 0.3
        several = not whole and rng.random() < 0.2
        made = {
            "name": f"p{self._names}",
            "whole": rng.choice([1, 1, 2]) if whole else 0,
            "units": [] if whole else [rng.choice([1, 2, 3, 4, 8])],
            "init": rng.choice([1, 4]) if not whole and rng.random() < 0.15 else 0,
            "priority": rng.choice([0, 0, 0, 100]),
            "grace": rng.choice([0, 1, 5, 30]),
            "zone": rng.choice(["", "", "", "a"]),
        }
        if whole and self._rare.random() < 0.3:
            made["init"] = self._rare.choice([1, 2, 3])
        if self._apart.random() < 0.3:
            made["apart"] = self._apart.choice(["web", "web", "api"])
        if several:
            made["units"] = [rng.choice([1, 2, 3]), rng.choice([1, 2, 3])]
        return made

    def _which(self) -> dict[str, Any]:
        return {"which": self._rng.random()}

    def _node(self) -> dict[str, Any]:
        return {"node": self._rng.randrange(len(self._settings.nodes))}

    def _silent(self) -> dict[str, Any]:
        return {**self._node(), **self._duration()}

    def _card(self) -> dict[str, Any]:
        found = self._node()
        return {**found, "card": self._rng.randrange(len(self._settings.nodes[found["node"]]))}

    def _process(self) -> dict[str, Any]:
        return {"process": self._rng.choice(self._processes)}

    def _weather(self) -> dict[str, Any]:
        rng = self._rng
        kinds = ["lost_before", "lost_after", "reset_before", "reset_after", "unavailable", "failed_after", "too_many",
                 "refused", "duplicate", "swap"]  # fmt: skip
        odds = {kind: rng.choice([0.05, 0.2, 0.5]) for kind in rng.sample(kinds, rng.choice([1, 2, 3]))}
        if rng.random() < 0.1:
            odds = {"refused": 1.0}
        for slow, most_s in (("slow_s", [0.05, 1.0, 5.0]), ("lag_s", [0.2, 3.0, 20.0]), ("page_s", [0.5, 5.0])):
            if rng.random() < 0.25:
                odds[slow] = rng.choice(most_s)
        return {"process": rng.choice([*self._processes, "scheduler"]), "odds": odds, **self._duration()}

    def _duration(self) -> dict[str, Any]:
        return {"for_s": round(self._rng.choice([0.5, 3.0, 10.0, 30.0, 90.0]) * self._rng.uniform(0.3, 1.5), 3)}
