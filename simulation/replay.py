"""Schedules of what people and cards do, which a real control plane can be taken through as well."""

from __future__ import annotations

import random
from collections.abc import Iterator

from gcushare.device_plugin.plugin_settings import GrantMode
from simulation.cluster import Cluster
from simulation.invariants import Picture
from simulation.schedule import OUR_LEASE, Action, Schedule, Settings

STEP_S = 25.0
"""Between two actions: longer than the scheduler's longest back-off and what wakes pods."""


def make_replay(seed: int, actions: int = 14) -> Schedule:
    """Draw creates, deletes, labels of nodes and cards' faults, each long enough after the one before."""
    rng = random.Random(f"replay/{seed}")
    settings = Settings(
        seed=seed,
        nodes=((8, 4), (8,)),
        vendor="enflame",
        mode=GrantMode.MEMORY,
        old_scheduler=False,
        clock_drift=0.0,
        wall_skew_s=0.0,
        card_poll_s=1.0,
        node_policy="binpack",
        page_size=250,
        best=1,
        replicas=3,
        lease=OUR_LEASE,
    )
    drawn = tuple(
        Action(20.0 + STEP_S * number, kind, args)
        for number, (kind, args) in zip(range(actions), _draw(rng), strict=False)
    )
    end_s = 20.0 + STEP_S * actions
    return Schedule(settings, drawn, ((end_s, end_s + STEP_S),))


def _draw(rng: random.Random) -> Iterator[tuple[str, dict[str, object]]]:
    names = 0
    kinds = {"create": 8.0, "delete": 3.0, "relabel": 1.0, "sick card": 1.0, "heal card": 1.5, "cordon node": 0.5,
             "uncordon node": 1.0}  # fmt: skip
    while True:
        kind = "create" if names < 4 else rng.choices(list(kinds), list(kinds.values()))[0]
        node = rng.randrange(2)
        match kind:
            case "create":
                names += 1
                yield kind, {"name": f"p{names}", "whole": 0, "units": [rng.choice([2, 3, 4, 6, 8])], "init": 0,
                             "priority": 0, "grace": 0, "zone": rng.choice(["", "", "a"])}  # fmt: skip
            case "delete":
                yield kind, {"which": rng.random()}
            case "relabel":
                yield kind, {"node": node, "zone": rng.choice(["a", "b"])}
            case "sick card":
                yield kind, {"node": node, "card": 0, "for_s": 1e6}
            case "heal card":
                yield kind, {"node": node, "card": 0}
            case _:
                yield kind, {"node": node}


def pictures_of(schedule: Schedule) -> list[Picture]:
    """How the simulated cluster stands after each action.

    Raises:
        RuntimeError: an invariant was violated.
    """
    cluster = Cluster(schedule, takes_pictures=True)
    cluster.run()
    if cluster.world.violations:
        raise RuntimeError(str(cluster.world.violations[0]))
    return cluster.pictures[1:]
