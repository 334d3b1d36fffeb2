"""Create the templates that pods wait for, and delete those that no pod has named for a while."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.errors import AlreadyExistsError
from gcushare.kube.events import EventRecorder, about_pod
from gcushare.kube.patches import Precondition
from gcushare.kube.resources import RESOURCE_CLAIM_TEMPLATES
from gcushare.scheduler_extender.claims.template_plan import (
    MAX_TEMPLATES,
    OWN_LABELS,
    Step,
    TemplateKey,
    TemplatePlan,
    trimmed,
)
from gcushare.wire.dra.claims import new_template

logger = logging.getLogger(__name__)

NOT_OURS, TOO_MANY = "ClaimTemplateNotOurs", "TooManyClaimTemplates"
"""Reasons of the events on pods whose template is not made."""

_AT_ONCE = 8
"""Requests in flight."""


@dataclass(slots=True)
class TemplateKeeper:
    """Carries out ``plan`` while ``is_leader`` says so; ``run`` it in a task of its own once the watches are complete.

    ``changed`` must be set when the plan or the leader may have changed.
    """

    client: KubeClient
    plan: TemplatePlan
    recorder: EventRecorder
    changed: asyncio.Event
    is_leader: Callable[[], bool]
    clock: Clock
    rng: random.Random
    counters: Counter[str] = field(default_factory=Counter)
    """What happened since the start, for metrics: created, deleted, failed."""
    _due: dict[TemplateKey, float] = field(default_factory=dict)
    _again: dict[TemplateKey, tuple[float, Backoff]] = field(default_factory=dict)
    """Templates that could not be kept: when to try again."""

    async def run(self) -> None:
        """Keep templates until cancelled."""
        while True:
            await self._wait()
            if not self.is_leader():
                continue
            now_s = self.clock.monotonic()
            ready = [key for key, due_s in self._due.items() if due_s <= now_s]
            for start in range(0, len(ready), _AT_ONCE):
                async with asyncio.TaskGroup() as tasks:
                    for key in ready[start : start + _AT_ONCE]:
                        tasks.create_task(self._keep(key), name=f"keep template {key}")

    async def _wait(self) -> None:
        """Return when something changed or is due; what changed is due at once, unless it failed a moment ago."""
        now_s = self.clock.monotonic()
        soonest_s = min(self._due.values(), default=None)
        if not self.changed.is_set() and (soonest_s is None or soonest_s > now_s or not self.is_leader()):
            timeout_s = None if soonest_s is None or not self.is_leader() else soonest_s - now_s
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.changed.wait()
        self.changed.clear()
        for key in sorted(self.plan.changed):  # a simulated run repeats whatever its process hashes
            self._due[key] = self._again[key][0] if key in self._again else 0.0
        self.plan.changed.clear()

    async def _keep(self, key: TemplateKey) -> None:
        """Bring one template into line, or schedule another try."""
        now_s = self.clock.monotonic()
        plan = self.plan.next_step(key, now_s)
        self._due.pop(key, None)
        if plan is None:
            self._again.pop(key, None)
            return
        if plan.due_s > now_s:
            self._due[key] = plan.due_s
            return
        failure: GcushareError | None = None
        try:
            if await self._do(plan.step, key):
                self._again.pop(key, None)
                return
        except GcushareError as error:
            self.counters["failed"] += 1
            logger.warning("template not kept %s", fields(template=key, step=plan.step.value, error=error))
            failure = error
        _, backoff = self._again.get(key) or (0.0, Backoff(BackoffPolicy(first_s=0.5, cap_s=60.0), self.rng))
        self._due[key] = self.clock.monotonic() + backoff.next_delay_s(failure)
        self._again[key] = (self._due[key], backoff)

    async def _do(self, step: Step, key: TemplateKey) -> bool:
        """Execute a step; returns whether it was possible."""
        if step is Step.CREATE:
            return await self._create(key)
        if step is Step.DELETE:
            return await self._delete(key)
        self._report_to_users(
            key,
            TOO_MANY,
            f"namespace {key.namespace} has {MAX_TEMPLATES} templates of gcushare, which is the most: ask for an "
            "amount that another pod asks for, or wait until unused templates are deleted",
        )
        return False

    async def _create(self, key: TemplateKey) -> bool:
        spec = self.plan.spec_of(key)
        if spec is None:
            return True
        body = new_template(key.name, key.namespace, OWN_LABELS, spec)
        try:
            made = await self.client.create(RESOURCE_CLAIM_TEMPLATES, body, namespace=key.namespace)
        except AlreadyExistsError:
            found = await self.client.get(RESOURCE_CLAIM_TEMPLATES, key.name, namespace=key.namespace)
            if OWN_LABELS.items() <= found.metadata.labels.items():
                return self.plan.templates.answered(trimmed(found))
            if found.spec != spec:
                self._report_to_users(
                    key,
                    NOT_OURS,
                    f"ResourceClaimTemplate {key} was not made by gcushare and asks for something else than this pod "
                    "does: delete it, and gcushare will make its own",
                )
            return False
        self.counters["created"] += 1
        logger.info("template created %s", fields(template=key))
        return self.plan.templates.answered(trimmed(made))  # before the watch shows it

    async def _delete(self, key: TemplateKey) -> bool:
        found = self.plan.existing.get(key)
        if found is None:
            return True
        try:
            await self.client.delete(
                RESOURCE_CLAIM_TEMPLATES,
                key.name,
                namespace=key.namespace,
                precondition=Precondition(found.metadata.uid, found.metadata.resource_version),
            )
        except (NotFoundError, ConflictError):
            return False  # the watch brings what is there now
        self.counters["deleted"] += 1
        logger.info("template deleted %s", fields(template=key))
        return True  # The watch shows its end, or what holds it: a finalizer may.

    def _report_to_users(self, key: TemplateKey, reason: str, message: str) -> None:
        for pod in self.plan.users(key):
            self.recorder.record(about_pod(pod), reason, message, warning=True)
