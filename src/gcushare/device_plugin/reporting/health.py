"""Health of the plugin. Readiness calls its own sockets as the kubelet does; liveness checks its tasks' progress."""

from __future__ import annotations

from collections.abc import Callable

from gcushare.device_plugin.pods.reconciler import PERIOD_S
from gcushare.device_plugin.reporting.metrics import Observed
from gcushare.device_plugin.reporting.status import POD_RECORDS, problems
from gcushare.runtime.health import Health, Progress

REGISTRATION_AGE_S = 60.0
"""The registration task makes two rounds per second, and waits a few seconds at most for the kubelet's answer."""
RECORD_AGE_S = 3 * PERIOD_S
POLL_GRACE_S = 300.0
"""Added for the cards task: opening a library may take a minute, and attempts are some time apart."""


def make_health(observed: Observed, *, card_polls: Callable[[], int], poll_interval_s: float) -> Health:
    """Return the checks of /healthz and /readyz. ``card_polls`` counts the rounds of the cards task."""
    health = Health()
    for part, endpoint in observed.endpoints.items():
        health.add_live(f"{part} registration task", endpoint.pulse.check)
    checks = Progress("kubelet record", lambda: observed.reconciler.counters.checks, RECORD_AGE_S)
    health.add_live("record task", checks.check)
    poll_age_s = 3 * poll_interval_s + POLL_GRACE_S
    health.add_live("cards task", Progress("cards", card_polls, poll_age_s).check)
    for part, endpoint in observed.endpoints.items():
        health.add_ready(f"{part} socket", endpoint.probe)

    async def check_problems() -> str | None:
        # Not the records of single pods: an author whose record a webhook refuses must not stop a rollout.
        found = {part: problem for part, problem in problems(observed).items() if part != POD_RECORDS}
        return "; ".join(f"{part}: {problem}" for part, problem in found.items()) or None

    health.add_ready("plugin", check_problems)
    return health
