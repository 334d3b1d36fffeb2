"""The plugin's health, and its status document: cards, units, pods with their allocations, and all problems.

Readiness calls the plugin's own sockets as the kubelet does; liveness checks its tasks' progress.

The document is served as JSON on /status and shown by ``--status`` and ``gcushare cards``. The schema is
``gcushare.wire.documents.plugin_status``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gcushare._version import __version__
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.device_plugin.pods.reconciler import PERIOD_S
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.reporting.metrics import ObservedResources
from gcushare.node.over_use.parts import OverUseParts
from gcushare.node.pod_use import PodUse
from gcushare.node.pods import NO_SIZES, CardCounts
from gcushare.node.status import card_statuses, cards_progress, describe_action, describe_over_uses, problems_text
from gcushare.runtime.health import CounterHeartbeat, HealthChecks
from gcushare.wire.documents.plugin_status import PluginStatus, PodOnNode, UnreadableStatus

_REGISTRATION = {SERVES_MEMORY: "registration", SERVES_WHOLE: "wholeRegistration"}
POD_RECORDS = "podRecords"
"""The name of the problem that concerns single pods, not the whole node."""
WATCH_STALE_S = 150.0
"""Twice the silence after which a watch counts as dead. By then it is open again, if the API server answers."""


def describe_node(observed: ObservedResources) -> PluginStatus:
    """Describe the plugin's present state."""
    inventory = observed.agent.inventory
    age_s = observed.watch_age_s()
    sizes = inventory.units_by_card if inventory is not None else NO_SIZES
    used = observed.pod_use.latest if observed.pod_use is not None else None
    return PluginStatus(
        version=__version__,
        vendor=observed.vendor,
        node=observed.node,
        problems=problems(observed),
        unit=inventory.unit.name if inventory is not None else None,
        driver=inventory.driver if inventory is not None else "",
        modes=inventory.modes if inventory is not None else (),
        cards=card_statuses(observed, lambda index, whole: _holders(observed.store, index, whole=whole)),
        left_out=observed.agent.left_out,
        pods=tuple(_pod(entry, sizes, used, observed.over_use) for _, entry in sorted(observed.store.entries.items())),
        unreadable_pods=tuple(
            UnreadableStatus(pod=str(pod.pod), reason=pod.reason) for pod in observed.store.unreadable
        ),
        foreign_containers=observed.agent.foreign_containers,
        unconfirmed_allocations=observed.store.pending_allocations,
        watch_age_seconds=None if age_s is None else round(age_s, 1),
        registrations=sum(endpoint.registrations for endpoint in observed.endpoints.values()),
        corrections=observed.reconciler.writer.corrections,
        pod_use=observed.pod_use.problem if observed.pod_use is not None else None,
        over_use=describe_action(observed.over_use),
    )


def problems(observed: ObservedResources) -> dict[str, str]:
    """All present problems, by component; empty if there are none."""
    age_s, watch = observed.watch_age_s(), ""
    if age_s is None:
        watch = "this node's pods were not listed yet; see the log for the API server's answer"
    elif age_s > WATCH_STALE_S:
        watch = f"no answer from the API server for {age_s:.0f}s; known pods are still served"
    parts: Mapping[str, str] = {
        "cards": observed.agent.problem,
        "leaving": observed.agent.leaving,
        **{_REGISTRATION[part]: endpoint.problem for part, endpoint in observed.endpoints.items()},
        "kubeletRecord": observed.reconciler.problem,
        "node": observed.publisher.problem,
        "pods": watch,
        POD_RECORDS: observed.reconciler.writer.problem,
        "cdi": observed.cdi.problem,
        "memoryLimit": observed.limit_problem,
        "overUse": observed.over_use.evictor.problem if observed.over_use.evictor is not None else "",
    }
    return {name: problem for name, problem in parts.items() if problem}


def _cards_of(entry: PodEntry) -> tuple[int, ...]:
    """The cards that a pod holds, or else those that are reserved for it."""
    return entry.taken_cards or tuple(sorted(entry.promise))


def _holders(store: PodStore, index: int, *, whole: bool) -> list[str]:
    known = (each for each in store.entries.values() if each.is_whole == whole and index in _cards_of(each))
    return [*(str(each.ref) for each in known), *store.unrecorded.users_of(index, whole=whole)]


def _pod(entry: PodEntry, sizes: CardCounts, used: PodUse | None, over_use: OverUseParts) -> PodOnNode:
    return PodOnNode(
        pod=str(entry.ref),
        uid=entry.ref.uid,
        units=entry.request.total_units,
        recorded_cards=entry.record.card_indexes if entry.record is not None else (),
        assigned=entry.record.assigned if entry.record is not None else False,
        held_by_card=dict(sorted(entry.units_by_card(sizes).items())),
        containers={name: dict(sorted(counts.items())) for name, counts in entry.held.items()},
        unconfirmed=tuple(sorted(entry.unconfirmed)),
        cards=_cards_of(entry),
        whole=entry.is_whole,
        used_by_card=dict(sorted(used.by_pod.get(entry.ref.uid, {}).items())) if used is not None else None,
        used_by_driver=used.cards_by_driver(entry.ref.uid) if used is not None else (),
        utilization_by_card=dict(sorted(used.utilization.get(entry.ref.uid, {}).items())) if used is not None else None,
        over_use=describe_over_uses(over_use, entry.ref.uid),
    )


RECORD_AGE_S = 3 * PERIOD_S


def make_health(observed: ObservedResources, *, card_polls: Callable[[], int], poll_interval_s: float) -> HealthChecks:
    """Return the checks of /healthz and /readyz. ``card_polls`` counts the rounds of the cards task."""
    health = HealthChecks()
    for part, endpoint in observed.endpoints.items():
        health.add_live(f"{part} registration task", endpoint.pulse.check)
    checks = CounterHeartbeat("kubelet record", lambda: observed.reconciler.checks, RECORD_AGE_S)
    health.add_live("record task", checks.check)
    health.add_live("cards task", cards_progress(card_polls, poll_interval_s).check)
    for part, endpoint in observed.endpoints.items():
        health.add_ready(f"{part} socket", endpoint.probe)

    async def check_problems() -> str | None:
        # Not the records of single pods: an author whose record a webhook refuses must not stop a rollout.
        found = problems(observed)
        return problems_text({part: found[part] for part in found if part != POD_RECORDS})

    health.add_ready("plugin", check_problems)
    return health
