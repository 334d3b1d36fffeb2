"""Answers /healthz and /readyz from named checks. Ready: the program works. Alive: its tasks make progress."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from gcushare.core.log_fields import fields

logger = logging.getLogger(__name__)

Check = Callable[[], Awaitable[str | None]]
"""Returns None if the check passes, else the reason. An exception is a reason too."""

# Below the kubelet's own default of one second per probe, so that the answer names the slow check.
CHECK_TIMEOUT_S = 0.8
_LONGEST_REASON = 500


class Heartbeat:
    """Progress of one task: it calls ``beat`` in each round. The check fails if the last beat is too old."""

    def __init__(self, task: str, max_age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._task = task
        self._max_age_s = max_age_s
        self._clock = clock
        # The time until the first beat is limited too, so that a task that never started fails the check.
        self._last_beat = clock()

    def beat(self) -> None:
        self._last_beat = self._clock()

    async def check(self) -> str | None:
        age_s = self._clock() - self._last_beat
        if age_s <= self._max_age_s:
            return None
        return f"task {self._task!r} made no progress for {age_s:.1f}s; allowed {self._max_age_s:g}s"


class CounterHeartbeat(Heartbeat):
    """A counter that must change. If it does not for ``max_age_s``, a restart is needed."""

    def __init__(
        self, task: str, read: Callable[[], int], max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(task, max_age_s, clock)
        self._read = read
        self._last = read()

    async def check(self) -> str | None:
        now = self._read()
        if now != self._last:
            self._last = now
            self.beat()
        return await super().check()


Reasons = dict[str, str | None]
"""The results of a set of checks by name; None means that a check passed."""


class HealthChecks:
    """The checks of one program and their two endpoints.

    A liveness check may fail only if a restart would help. Everything else (an unreachable server, a stale watch) is
    readiness.
    """

    def __init__(self, *, timeout_s: float = CHECK_TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._live: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._last_reasons: dict[str, Reasons] = {}

    def add_live(self, name: str, check: Check) -> None:
        """Add a check after whose failure the program must be restarted. It also counts for readiness."""
        self._add(self._live, name, check)

    def add_ready(self, name: str, check: Check) -> None:
        """Add a check during whose failure the program must get no requests."""
        self._add(self._ready, name, check)

    def _add(self, checks: dict[str, Check], name: str, check: Check) -> None:
        if name in self._live or name in self._ready:
            raise ValueError(f"check {name!r} exists already; give each check its own name")
        checks[name] = check

    def routes(self) -> list[web.RouteDef]:
        """Return the two routes for the program's application: 200 if all checks pass, else 503."""

        async def answer(request: web.Request) -> web.Response:
            reasons = await self.report(request.path.removeprefix("/"))
            is_ok = not any(reason is not None for reason in reasons.values())
            checks = {
                name: {"ok": True} if reason is None else {"ok": False, "reason": reason}
                for name, reason in reasons.items()
            }
            body = {"status": "ok" if is_ok else "failing", "checks": checks}
            return web.json_response(body, status=200 if is_ok else 503)

        return [web.get("/healthz", answer), web.get("/readyz", answer)]

    async def report(self, endpoint: str) -> Reasons:
        """Run the liveness checks for ``healthz``, all for ``readyz``, each with a timeout. Never raises."""
        checks = self._live if endpoint == "healthz" else self._live | self._ready
        found = await asyncio.gather(*(self._run(check) for check in checks.values()))
        reasons = dict(zip(checks, found, strict=True))
        before = self._last_reasons.get(endpoint, {})
        for name, reason in reasons.items():  # a check is logged when its state changes, not at each probe
            was_failing = before.get(name) is not None
            if reason is not None and not was_failing:
                logger.warning("check failing %s", fields(endpoint=endpoint, check=name, reason=reason))
            elif reason is None and was_failing:
                logger.info("check well again %s", fields(endpoint=endpoint, check=name))
        self._last_reasons[endpoint] = reasons
        return reasons

    async def _run(self, check: Check) -> str | None:
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                reason = await check()
        except Exception as error:  # a check's failure is its result
            late = f"no answer within {self._timeout_s:g}s"
            reason = late if limit.expired() else f"{type(error).__name__}: {error}"
        return None if reason is None else reason[:_LONGEST_REASON]
