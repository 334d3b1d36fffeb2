"""Builds the plugin's status document: cards, units, pods with their allocations, and all problems.

It is served as JSON on /status and shown by ``--status`` and ``gcushare cards``. The schema is
``gcushare.wire.documents.plugin_status``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gcushare._version import __version__
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE, CardUse, Inventory
from gcushare.core.nodes import CardMode
from gcushare.core.wording import utc_text
from gcushare.device_plugin.over_use.parts import OverUseParts
from gcushare.device_plugin.pods.memory_use import PodUse
from gcushare.device_plugin.pods.pod import NO_SIZES, CardCounts, PodEntry, peak_per_card
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.reporting.metrics import Observed
from gcushare.wire.documents.plugin_status import (
    CardStatus,
    OverUseStatus,
    PluginStatus,
    PodOnNode,
    PodOverUse,
    UnreadableStatus,
    UseStatus,
)

_REGISTRATION = {SERVES_MEMORY: "registration", SERVES_WHOLE: "wholeRegistration"}
POD_RECORDS = "podRecords"
"""The name of the problem that concerns single pods, not the whole node."""
WATCH_STALE_S = 150.0
"""Twice the silence after which a watch counts as dead. By then it is open again, if the API server answers."""


def describe_node(observed: Observed) -> PluginStatus:
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
        cards=_cards(inventory, observed, used) if inventory is not None else (),
        left_out=inventory.left_out if inventory is not None else (),
        pods=tuple(_pod(entry, sizes, used, observed.over_use) for _, entry in sorted(observed.store.entries.items())),
        unreadable_pods=tuple(
            UnreadableStatus(pod=str(pod.pod), reason=pod.reason) for pod in observed.store.unreadable
        ),
        foreign_containers=observed.agent.foreign_containers,
        unconfirmed_allocations=observed.store.pending_allocations,
        watch_age_seconds=None if age_s is None else round(age_s, 1),
        registrations=sum(endpoint.registrations for endpoint in observed.endpoints.values()),
        corrections=observed.reconciler.writer.counters.corrections,
        pod_use=observed.pod_use.problem if observed.pod_use is not None else None,
        over_use=_action(observed.over_use),
    )


def problems(observed: Observed) -> dict[str, str]:
    """All present problems, by component; empty if there are none."""
    parts: Mapping[str, str] = {
        "cards": observed.agent.problem,
        **{_REGISTRATION[part]: endpoint.problem for part, endpoint in observed.endpoints.items()},
        "kubeletRecord": observed.reconciler.problem,
        "node": observed.publisher.problem,
        "pods": _watch_problem(observed.watch_age_s()),
        POD_RECORDS: observed.reconciler.writer.problem,
        "cdi": observed.cdi.problem,
        "memoryLimit": observed.mps.problem if observed.mps is not None else "",
        "overUse": observed.over_use.evictor.problem if observed.over_use.evictor is not None else "",
    }
    return {name: problem for name, problem in parts.items() if problem}


def _watch_problem(age_s: float | None) -> str:
    if age_s is None:
        return "this node's pods were not listed yet; see the log for the API server's answer"
    if age_s > WATCH_STALE_S:
        return f"no answer from the API server for {age_s:.0f}s; known pods are still served"
    return ""


def _cards(inventory: Inventory, observed: Observed, used: PodUse | None) -> tuple[CardStatus, ...]:
    sizes = inventory.units_by_card
    held, promised = observed.store.held_units(sizes), observed.store.promised()
    unrecorded = observed.store.unrecorded.units(sizes)
    holders = _holders(observed.store)
    # Match by uuid: after a card was lost, another card may have its index.
    found = observed.cards()
    uses = {each.uuid: found.uses.get(each.index) for each in found.cards}
    return tuple(
        CardStatus(
            **msgspec.structs.asdict(card),
            lost_bytes=inventory.unit.remainder_bytes(card.memory_bytes),
            held_units=held.get(card.index, 0),
            promised_units=promised.get(card.index, 0),
            mode=_mode(card.index, holders.get(card.index, ()), observed.store).value,
            holders=tuple(
                sorted({*(str(e.ref) for e in holders.get(card.index, ())), *_others(card.index, observed.store)})
            ),
            use=_use(uses.get(card.uuid)),
            unattributed_bytes=used.unattributed.get(card.index) if used is not None else None,
            unrecorded_units=unrecorded.get(card.index, 0),
        )
        for card in observed.agent.describe(inventory).cards
    )


def _cards_of(entry: PodEntry) -> tuple[int, ...]:
    """The cards that a pod holds, or else those that are reserved for it."""
    return entry.taken_cards or tuple(sorted(entry.promise))


def _holders(store: PodStore) -> dict[int, list[PodEntry]]:
    """The pods of each card, by name."""
    found: dict[int, list[PodEntry]] = {}
    for entry in sorted(store.entries.values(), key=lambda entry: (str(entry.ref), entry.ref.uid)):
        for index in _cards_of(entry):
            found.setdefault(index, []).append(entry)
    return found


def _others(index: int, store: PodStore) -> set[str]:
    """The names of other pods that use a card, which are not in the store."""
    return {*store.unrecorded.users_of(index, whole=True), *store.unrecorded.users_of(index, whole=False)}


def _mode(index: int, holders: Sequence[PodEntry], store: PodStore) -> CardMode:
    if any(entry.is_whole for entry in holders) or store.unrecorded.users_of(index, whole=True):
        return CardMode.WHOLE
    return CardMode.SHARED if holders or _others(index, store) else CardMode.FREE


def _use(use: CardUse | None) -> UseStatus | None:
    if use is None:
        return None
    # The fields have one name in both; what processes do is a map by process id, empty if it is not reported.
    found = {name: getattr(use, name) for name in UseStatus.__struct_fields__}
    by_process = {name: dict(sorted((found[name] or {}).items())) for name in found if name.startswith("process")}
    return UseStatus(**(found | by_process))


def _pod(entry: PodEntry, sizes: CardCounts, used: PodUse | None, over_use: OverUseParts) -> PodOnNode:
    return PodOnNode(
        pod=str(entry.ref),
        uid=entry.ref.uid,
        units=entry.request.total_units,
        recorded_cards=entry.record.card_indexes if entry.record is not None else (),
        assigned=entry.record.assigned if entry.record is not None else False,
        held_by_card=dict(sorted(peak_per_card(entry, sizes).items())),
        containers={name: dict(sorted(counts.items())) for name, counts in entry.held.items()},
        unconfirmed=tuple(sorted(entry.unconfirmed)),
        cards=_cards_of(entry),
        whole=entry.is_whole,
        used_by_card=dict(sorted(used.by_pod.get(entry.ref.uid, {}).items())) if used is not None else None,
        utilization_by_card=dict(sorted(used.utilization.get(entry.ref.uid, {}).items())) if used is not None else None,
        over_use=_over_use_of(over_use, entry.ref.uid),
    )


def _over_use_of(parts: OverUseParts, uid: str) -> dict[int, PodOverUse] | None:
    """A pod's over-use by card; None if it is unknown."""
    if parts.watch is None:
        return None
    return {
        index: PodOverUse(
            used_bytes=each.figures.used,
            granted_bytes=each.figures.granted,
            peak_bytes=each.peak,
            since=utc_text(int(each.since)),
        )
        for index, each in sorted(parts.watch.over.get(uid, {}).items())
    }


def _action(parts: OverUseParts) -> OverUseStatus | None:
    """The action against over-use and its results; None if over-use is unknown."""
    if parts.watch is None:
        return None
    evictor = parts.evictor
    return OverUseStatus(
        action=parts.settings.over_use.value,
        dry_run=parts.settings.dry_run,
        last=evictor.last if evictor is not None else "",
        passed_over=dict(sorted(evictor.decision.passed_over.items())) if evictor is not None else {},
    )
