"""The plugin's health, and its status document: cards, units, pods with their allocations, and all problems.

Readiness calls the plugin's own sockets as the kubelet does; liveness checks its tasks' progress.

The document is served as JSON on /status and shown by ``--status`` and ``gcushare cards``. The schema is
``gcushare.wire.documents.plugin_status``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.device_plugin.pods.reconciler import PERIOD_S
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.reporting.metrics import POD_RECORDS, ObservedResources
from gcushare.node.pods import NO_SIZES, CardCounts
from gcushare.node.status import describe_node, make_checks
from gcushare.runtime.health import CounterHeartbeat, HealthChecks
from gcushare.wire.documents.plugin_status import PluginStatus, UnreadableStatus


def describe(observed: ObservedResources) -> PluginStatus:
    """Describe the plugin's present state."""
    store, age_s, inventory = observed.store, observed.watch_age_s(), observed.agent.inventory
    sizes = inventory.units_by_card if inventory is not None else NO_SIZES
    return describe_node(
        observed,
        ((entry, _describe_record(entry, sizes)) for _, entry in sorted(store.entries.items())),
        lambda index, whole: _holders(store, index, whole=whole),
        unit=None,
        unreadable_pods=tuple(UnreadableStatus(pod=str(pod.pod), reason=pod.reason) for pod in store.unreadable),
        foreign_containers=observed.agent.foreign_containers,
        unconfirmed_allocations=store.pending_allocations,
        watch_age_seconds=None if age_s is None else round(age_s, 1),
        registrations=sum(endpoint.registrations for endpoint in observed.endpoints.values()),
        corrections=observed.reconciler.writer.corrections,
    )


def _cards_of(entry: PodEntry) -> tuple[int, ...]:
    """The cards that a pod holds, or else those that are reserved for it."""
    return entry.taken_cards or tuple(sorted(entry.promise))


def _holders(store: PodStore, index: int, *, whole: bool) -> list[str]:
    known = (each for each in store.entries.values() if each.is_whole == whole and index in _cards_of(each))
    return [*(str(each.ref) for each in known), *store.unrecorded.users_of(index, whole=whole)]


def _describe_record(entry: PodEntry, sizes: CardCounts) -> dict[str, Any]:
    return {
        "units": entry.request.total_units,
        "recorded_cards": entry.record.card_indexes if entry.record is not None else (),
        "assigned": entry.record.assigned if entry.record is not None else False,
        "held_by_card": dict(sorted(entry.units_by_card(sizes).items())),
        "containers": {name: dict(sorted(counts.items())) for name, counts in entry.held.items()},
        "unconfirmed": tuple(sorted(entry.unconfirmed)),
        "cards": _cards_of(entry),
    }


RECORD_AGE_S = 3 * PERIOD_S


def make_health(observed: ObservedResources, *, card_polls: Callable[[], int], poll_interval_s: float) -> HealthChecks:
    """Return the checks of /healthz and /readyz. ``card_polls`` counts the rounds of the cards task."""

    def find_problems() -> dict[str, str]:
        # Not the records of single pods: an author whose record a webhook refuses must not stop a rollout.
        return {part: problem for part, problem in observed.problems().items() if part != POD_RECORDS}

    health = make_checks("plugin", find_problems, card_polls, poll_interval_s)
    for part, endpoint in observed.endpoints.items():
        health.add_live(f"{part} registration task", endpoint.pulse.check)
        health.add_ready(f"{part} socket", endpoint.probe)
    checks = CounterHeartbeat("kubelet record", lambda: observed.reconciler.checks, RECORD_AGE_S)
    health.add_live("record task", checks.check)
    return health
