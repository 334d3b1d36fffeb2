"""What metrics and the status document say of pods over their grant."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gcushare.core.over_use.tracking import OverUse
from gcushare.core.wording import utc_text
from gcushare.device_plugin.over_use.evictor import Outcome
from gcushare.device_plugin.over_use.parts import OverUseParts
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.documents.plugin_status import OverUseStatus, PodOverUse


def over_use_metrics(parts: OverUseParts, store: PodStore, where: tuple[str, str]) -> Iterator[Metric]:
    """Who is over by how much, how often that began, and what became of evictions; ``where``: vendor and node.

    Nothing where it is not known what pods use.
    """
    if parts.watch is None:
        return
    over = GaugeMetricFamily(
        "gcushare_pod_over_use_bytes",
        "Bytes of a card that a pod uses beyond its grant, while it is over: above the tolerance in several looks. No "
        "series: it is not.",
        labels=("vendor", "node", "card", "pod_namespace", "pod_name"),
    )
    sums: dict[tuple[str, str, str], int] = {}
    for uid, cards in parts.watch.over.items():
        ref = store.entries[uid].ref
        for index, each in cards.items():
            key = (str(index), ref.namespace, ref.name)
            sums[key] = sums.get(key, 0) + each.figures.excess
    for key, size in sums.items():
        over.add_metric((*where, *key), size)
    began = CounterMetricFamily(
        "gcushare_plugin_over_uses", "Times that a pod began to be over its grant.", labels=("vendor", "node")
    )
    began.add_metric(where, parts.watch.began)
    yield from (over, began)
    if parts.evictor is None:
        return
    evictions = CounterMetricFamily(
        "gcushare_plugin_over_use_evictions",
        "Decisions to evict a pod that is over its grant, by outcome: evicted, refused (by a disruption budget), gone, "
        "failed, rehearsed (--dry-run).",
        labels=("vendor", "node", "outcome"),
    )
    for outcome in Outcome:
        evictions.add_metric((*where, outcome.value), parts.evictor.outcomes[outcome])
    yield evictions


def describe_over_use_of(parts: OverUseParts, uid: str) -> dict[int, PodOverUse] | None:
    """What a pod is over on, by card; None where that is not known."""
    if parts.watch is None:
        return None
    return {index: _pod_over_use(each) for index, each in sorted(parts.watch.over.get(uid, {}).items())}


def describe_action(parts: OverUseParts) -> OverUseStatus | None:
    """What is done about it; None where it is not known who is over."""
    if parts.watch is None:
        return None
    evictor = parts.evictor
    return OverUseStatus(
        action=parts.settings.over_use.value,
        dry_run=parts.settings.dry_run,
        last=evictor.last if evictor is not None else "",
        passed_over=dict(sorted(evictor.decision.passed_over.items())) if evictor is not None else {},
    )


def _pod_over_use(over: OverUse) -> PodOverUse:
    figures = over.figures
    return PodOverUse(
        used_bytes=figures.used, granted_bytes=figures.granted, peak_bytes=over.peak, since=utc_text(int(over.since))
    )
