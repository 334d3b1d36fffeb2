"""One run of one schedule, and what came of it."""

from __future__ import annotations

import gc
import logging
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from simulation.claims_cluster import ClaimsCluster
from simulation.claims_schedule import ClaimsSchedule
from simulation.cluster import Cluster
from simulation.host_schedule import HostSchedule
from simulation.hosts import Hosts
from simulation.process import unwinding
from simulation.schedule import Schedule
from simulation.world import Violation

AnySchedule: TypeAlias = Schedule | HostSchedule | ClaimsSchedule


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run. ``digest`` is of everything that happened; equal ones mean equal runs."""

    world: str
    """"cluster", "hosts" or "claims"."""
    seed: int
    digest: str
    hours: float
    steps: int
    cpu_s: float = field(compare=False)
    faults: Counter[str] = field(compare=False)
    counts: Counter[str] = field(compare=False)
    violation: Violation | None
    history: tuple[str, ...] = field(compare=False, default=())


def run(schedule: AnySchedule, *, keeps_history: bool = False) -> Outcome:
    """Live through a schedule.

    The garbage collector works between runs only: when it works must not decide what happens in one.
    """
    began_s = time.process_time()
    was_enabled, was_disabled_for = gc.isenabled(), logging.root.manager.disable
    gc.disable()
    logging.disable(logging.ERROR)
    kind, played = _make_run(schedule, keeps_history=keeps_history)
    world = played.world
    try:
        played.run()
    except Exception as error:
        world.violations.append(
            Violation("the simulation itself goes on", f"{error!r}\n{traceback.format_exc()}", world.hours * 3600)
        )
    finally:
        logging.disable(was_disabled_for)
        if was_enabled:
            gc.enable()
    outcome = Outcome(
        world=kind,
        seed=schedule.seed,
        digest=world.digest,
        hours=world.hours,
        steps=world.loop.steps,
        cpu_s=time.process_time() - began_s,
        faults=world.faults,
        counts=world.counts,
        violation=world.violations[0] if world.violations else None,
        history=tuple(world.history) if keeps_history else (),
    )
    del played, world
    with unwinding():
        gc.collect()
    return outcome


def _make_run(schedule: AnySchedule, *, keeps_history: bool) -> tuple[str, Cluster | Hosts | ClaimsCluster]:
    match schedule:
        case HostSchedule():
            return "hosts", Hosts(schedule)
        case ClaimsSchedule():
            return "claims", ClaimsCluster(schedule)
        case Schedule():
            return "cluster", Cluster(schedule, keeps_history=keeps_history)
