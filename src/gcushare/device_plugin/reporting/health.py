"""Is the plugin well? Readiness asks its own socket as the kubelet does; liveness asks whether its tasks go round."""

from __future__ import annotations

from collections.abc import Callable

from gcushare.device_plugin.pods.reconciler import PERIOD_S
from gcushare.device_plugin.reporting.metrics import Observed
from gcushare.device_plugin.reporting.status import POD_RECORDS, problems
from gcushare.runtime.health import Health, Progress

REGISTRATION_AGE_S = 60.0
"""The registration's task goes round twice a second, and waits at most some seconds for the kubelet's answer."""
RECORD_AGE_S = 3 * PERIOD_S
LOOK_GRACE_S = 300.0
"""A library may take a minute to open, and rests between attempts."""


def make_health(observed: Observed, *, card_looks: Callable[[], int], poll_interval_s: float) -> Health:
    """Return the checks behind /healthz and /readyz; ``card_looks`` is how often the cards were looked at."""
    health = Health()
    for part, endpoint in observed.endpoints.items():
        health.add_live(f"{part} registration task", endpoint.pulse.check)
    checks = Progress("kubelet record", lambda: observed.reconciler.counters.checks, RECORD_AGE_S)
    health.add_live("record task", checks.check)
    look_age_s = 3 * poll_interval_s + LOOK_GRACE_S
    health.add_live("cards task", Progress("cards", card_looks, look_age_s).check)
    for part, endpoint in observed.endpoints.items():
        health.add_ready(f"{part} socket", endpoint.probe)

    async def check_problems() -> str | None:
        # A pod whose record a webhook refuses says nothing about the next one: its author must not stop a rollout.
        found = {part: problem for part, problem in problems(observed).items() if part != POD_RECORDS}
        return "; ".join(f"{part}: {problem}" for part, problem in found.items()) or None

    health.add_ready("plugin", check_problems)
    return health
