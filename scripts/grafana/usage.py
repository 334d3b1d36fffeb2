"""Who used what in a month, from the recorded GiB-hours of dashboards/rules/usage.yaml."""

from __future__ import annotations

from scripts.grafana.model import FILLING, Column, Kind, Panel, Query, Row, Span, Unit
from scripts.grafana.queries import OURS


def _gib_hours(what: str) -> str:
    """The GiB-hours of the panel's time: each sample is what one minute added."""
    rule = f"namespace_label:gcushare_{what}_gib_hours:1m"
    return f"sum by (vendor, pod_namespace, label) (sum_over_time({rule}{{{OURS}}}[$__range]))"


def _month(title: str, about: str, span: Span) -> Panel:
    return Panel(
        kind=Kind.TABLE,
        title=title,
        about=about,
        queries=(
            Query(_gib_hours("granted"), "granted"),
            Query(_gib_hours("used"), "used"),
            Query(f"{_gib_hours('used')} / {_gib_hours('granted')}", "used of granted"),
        ),
        labels=("vendor", "pod_namespace", "label"),
        columns=(
            Column(name="granted", unit=Unit.GIB_HOURS),
            Column(name="used", unit=Unit.GIB_HOURS),
            Column(name="used of granted", unit=Unit.SHARE, steps=FILLING, maximum=1),
        ),
        width=12,
        height=10,
        span=span,
    )


USAGE = Row(
    "Who used what",
    (
        _month(
            "GiB-hours this month",
            "Card memory granted and used since the first of the month, by namespace and by the pods' label of "
            "prometheusRule.podLabel. The chart's rules record it (prometheusRule.enabled); what is used with podUse.",
            Span.THIS_MONTH,
        ),
        _month(
            "GiB-hours last month",
            "The same for the whole last month, as far back as Prometheus keeps its data: 15 days by itself.",
            Span.LAST_MONTH,
        ),
    ),
)
