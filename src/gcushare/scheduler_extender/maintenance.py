"""Background loops: recount the ledger, learn typical requests, and confirm reservations without a watch event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from prometheus_client import Counter

from gcushare.core.assignments import Assignment
from gcushare.core.ledger import Drift, FigureDrift
from gcushare.core.log_fields import fields
from gcushare.runtime.health import Heartbeat
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService

logger = logging.getLogger(__name__)

LEARN_EVERY_S = 1.0
"""How often to look whether pods have changed enough to learn from them again."""
_PODS_PER_STEP = 512
_NODES_PER_STEP = 16
_MAX_LOGGED = 20
"""Drifts logged one by one; their number is always logged."""


async def recount_periodically(
    states: Sequence[tuple[VendorState, Counter]], interval_s: float, heartbeat: Heartbeat
) -> None:
    """Recount every ``interval_s`` seconds; differences are logged, counted and repaired."""
    while True:
        heartbeat.beat()
        await asyncio.sleep(interval_s)
        for state, drifts in states:
            found = []
            for some in recount(state):
                found += some
                await asyncio.sleep(0)
            if found:
                drifts.inc(len(found))
                _report(state, found)


def recount(state: VendorState) -> Iterator[list[Drift | FigureDrift]]:
    """Count everything again from what the watch brought, and repair differences; yields them, step by step.

    Reservations are no drift. A step takes less than a millisecond, except for ranking the nodes of one shape,
    another one each time (10 ms with 5,000 nodes). Between two steps anything may change.
    """
    held = iter(list(state.bound.values()))
    while some := list(islice(held, _PODS_PER_STEP)):
        found: list[Drift | FigureDrift] = []
        for known in some:
            uid = known.pod.uid
            is_current = state.bound.get(uid) is known  # Otherwise it was updated since the recount began.
            if is_current and (drift := state.ledger.find_drift(uid, known)) is not None:
                state.ledger.apply(known)
                found.append(drift)
        yield found
    nodes = iter(list(state.ledger.nodes))
    while names := list(islice(nodes, _NODES_PER_STEP)):
        found = []
        for name in names:
            node = state.ledger.nodes.get(name)
            for uid in () if node is None else tuple(node.assignments):
                if uid not in state.bound and (drift := state.ledger.find_drift(uid, None)) is not None:
                    state.ledger.forget(uid)
                    found.append(drift)
            if (wrong := state.ledger.recount_node(name)) is not None:
                found.append(wrong)
        yield found
    yield [FigureDrift(name, "ranked wrongly") for name in state.indexes.recount_next()]


async def learn_changes(states: Sequence[VendorState]) -> None:
    """Learn the typical requests where pods or nodes have changed, and yield to other tasks in between."""
    for state in states:
        if state.preferences.has_changed:
            for _ in state.preferences.learn(state.bound):
                await asyncio.sleep(0)


async def confirm_periodically(services: Sequence[BindService], after_s: float) -> None:
    """Read the pods of reservations that stayed unconfirmed for ``after_s`` seconds."""
    while True:
        await asyncio.sleep(after_s / 3)
        for service in services:
            await service.confirm(older_than_s=after_s)


def _report(state: VendorState, drifts: Sequence[Drift | FigureDrift]) -> None:
    logger.warning("ledger repaired %s", fields(vendor=state.vendor.name, drifts=len(drifts)))
    for drift in drifts[:_MAX_LOGGED]:
        if isinstance(drift, FigureDrift):
            logger.warning("drift %s", fields(vendor=state.vendor.name, node=drift.where, wrong=drift.text))
            continue
        logger.warning(
            "drift %s",
            fields(
                vendor=state.vendor.name,
                uid=drift.uid,
                counted=_describe(drift.counted),
                observed=_describe(drift.observed),
            ),
        )


def _describe(assignment: Assignment | None) -> str:
    if assignment is None:
        return "nothing"
    cards = ",".join(f"{grant.units} of card {grant.index}" for grant in assignment.grants) or "no card"
    return f"{assignment.pod} on {assignment.node}: {cards}"
