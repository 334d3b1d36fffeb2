"""Background loops: recount the ledger, learn typical requests, and confirm reservations without a watch event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from prometheus_client import Counter

from gcushare.core.ledger import Drift, FigureDrift
from gcushare.core.log_fields import fields
from gcushare.core.nodes import Assignment
from gcushare.runtime.health import Heartbeat
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService

logger = logging.getLogger(__name__)

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
            for some in state.recount():
                found += some
                await asyncio.sleep(0)
            if found:
                drifts.inc(len(found))
                _report(state, found)


async def learn_periodically(states: Sequence[VendorState], interval_s: float) -> None:
    """Learn the typical requests of pods every ``interval_s`` seconds."""
    while True:
        await asyncio.sleep(interval_s)
        await learn_once(states)


async def learn_once(states: Sequence[VendorState]) -> None:
    """Learn the typical requests once, and yield to other tasks in between."""
    for state in states:
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
