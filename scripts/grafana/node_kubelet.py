"""One node: how its plugin and its kubelet get along."""

from __future__ import annotations

from scripts.grafana.model import Kind, Panel, Query, Row, Unit
from scripts.grafana.node_queries import HERE, THIS_PLUGIN, in_all, increase

KUBELET = Row(
    "Plugin and kubelet",
    (
        Panel(
            kind=Kind.LINES,
            title="99 of 100 calls of the kubelet are answered within",
            about="Waiting for a pod that the plugin has not seen yet is part of it.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (call, le) ("
                    f"rate(gcushare_plugin_call_seconds_bucket[$__rate_interval]) and {THIS_PLUGIN}))",
                    "{{call}}",
                ),
            ),
            width=8,
            unit=Unit.SECONDS,
        ),
        Panel(
            kind=Kind.LINES,
            title="Calls of the kubelet",
            about="By outcome: ok, or the family of the error. A refused pod fails with UnexpectedAdmissionError.",
            queries=(
                Query(
                    "sum by (call, outcome) ("
                    f"increase(gcushare_plugin_call_seconds_count[$__rate_interval]) and {THIS_PLUGIN})",
                    "{{call}} {{outcome}}",
                ),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Registrations",
            about=(
                "One at the start, and one for each restart of the kubelet. More are a list that it refuses, or two "
                "plugins."
            ),
            queries=(Query(increase("gcushare_plugin_registrations_total", "resource"), "{{resource}}"),),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Records on pods",
            about="Written, corrected because the kubelet gave another card, and writes that failed.",
            queries=(
                Query(increase("gcushare_plugin_record_writes_total"), "written {{vendor}}"),
                Query(increase("gcushare_plugin_record_corrections_total"), "corrected {{vendor}}"),
                Query(increase("gcushare_plugin_record_write_failures_total"), "failed {{vendor}}"),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Reads of the kubelet's allocations",
            about="podresources, or the checkpoint. Without them, which pod holds which card is a guess.",
            queries=(
                Query(increase("gcushare_plugin_kubelet_record_reads_total"), "looks {{vendor}}"),
                Query(increase("gcushare_plugin_kubelet_record_failures_total"), "failed {{vendor}}"),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Open questions",
            about="Allocations that the kubelet has not shown yet, and containers with ids of another plugin.",
            queries=(
                Query(in_all("gcushare_plugin_unconfirmed_allocations"), "unconfirmed {{vendor}}"),
                Query(in_all("gcushare_plugin_foreign_containers"), "foreign {{vendor}}"),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Requests to the API server",
            about="By answer; 0 is none, 403 a missing right.",
            queries=(
                Query(
                    "sum by (verb, resource, code) ("
                    f"rate(gcushare_plugin_api_requests_total[$__rate_interval]) and {THIS_PLUGIN})",
                    "{{verb}} {{resource}} {{code}}",
                ),
            ),
            width=12,
            unit=Unit.PER_SECOND,
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the watch cache of the pods",
            about=(
                "Since the API server last proved it. Saw teeth of about a minute are healthy; pods bound since are "
                "placed by the plugin itself."
            ),
            queries=(Query(f"max by (vendor) (gcushare_plugin_watch_age_seconds{{{HERE}}})", "{{vendor}}"),),
            width=12,
            unit=Unit.SECONDS,
        ),
    ),
)
