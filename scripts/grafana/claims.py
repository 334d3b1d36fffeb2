"""Nodes that serve claims: how the driver of one gets along with its kubelet, and what the extender writes for them."""

from __future__ import annotations

from scripts.grafana.model import NONE_IS_GOOD, SOME_IS_GOOD, Kind, Panel, Query, Row, Unit
from scripts.grafana.node_queries import HERE, in_all, increase
from scripts.grafana.queries import OURS, per_node

THIS_DRIVER = f"on (job, instance) gcushare_claims_registered{{{HERE}}}"
"""Joins figures that know no node to the driver that serves them."""

CLAIMS_ON_NODE = Row(
    "Claims",
    (
        Panel(
            kind=Kind.STAT,
            title="Registered as claims driver",
            about="1 while the kubelet has the driver; empty on a node that serves resources.",
            queries=(Query(in_all("gcushare_claims_registered"), "{{vendor}}"),),
            width=4,
            steps=SOME_IS_GOOD,
        ),
        Panel(
            kind=Kind.LINES,
            title="Claims and slices",
            about="Claims that are prepared, ResourceSlices of the node, and 1 while the slices say what they should.",
            queries=(
                Query(in_all("gcushare_claims_prepared_claims"), "claims {{vendor}}"),
                Query(in_all("gcushare_claims_slices"), "slices {{vendor}}"),
                Query(in_all("gcushare_claims_slices_current"), "slices are current {{vendor}}"),
            ),
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="99 of 100 claims are prepared within",
            about="From a call of the kubelet to its answer, with one request to the API server for each claim.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (call, le) ("
                    f"rate(gcushare_claims_call_seconds_bucket[$__rate_interval]) and {THIS_DRIVER}))",
                    "{{call}}",
                ),
            ),
            width=6,
            unit=Unit.SECONDS,
        ),
        Panel(
            kind=Kind.LINES,
            title="Calls and writes of the driver",
            about="Rounds of writes of slices, the kubelet's calls by outcome, and requests to the API server by code.",
            queries=(
                Query(increase("gcushare_claims_slice_rounds_total"), "slices {{vendor}}"),
                Query(
                    "sum by (call, outcome) ("
                    f"increase(gcushare_claims_call_seconds_count[$__rate_interval]) and {THIS_DRIVER})",
                    "{{call}} {{outcome}}",
                ),
                Query(
                    "sum by (verb, code) ("
                    f"increase(gcushare_claims_api_requests_total[$__rate_interval]) and {THIS_DRIVER})",
                    "{{verb}} {{code}}",
                ),
            ),
            width=8,
        ),
    ),
)

_STALE = per_node("max", "gcushare_claims_slices_current", " == 0")
_FAILURES = "gcushare_claims_write_failures_total"

CLAIMS = Row(
    "Claims",
    (
        Panel(
            kind=Kind.STAT,
            title="Nodes that serve claims",
            about="Nodes whose claims driver the kubelet has registered.",
            queries=(Query(f"sum by (vendor) (gcushare_claims_registered{{{OURS}}})", "{{vendor}}"),),
            width=4,
        ),
        Panel(
            kind=Kind.STAT,
            title="Slices that are not current",
            about="Nodes whose ResourceSlices do not say what the driver has.",
            queries=(Query(f"count by (vendor) ({_STALE})", "{{vendor}}"),),
            width=4,
            steps=NONE_IS_GOOD,
        ),
        Panel(
            kind=Kind.LINES,
            title="Prepared claims",
            about="Of all nodes that serve claims.",
            queries=(Query(f"sum by (vendor) (gcushare_claims_prepared_claims{{{OURS}}})", "{{vendor}}"),),
            width=5,
        ),
        Panel(
            kind=Kind.LINES,
            title="Templates of claims",
            about="ResourceClaimTemplates of gcushare: one for each size and namespace in use.",
            queries=(Query("max(gcushare_claims_templates)", "templates"),),
            width=5,
        ),
        Panel(
            kind=Kind.LINES,
            title="Writes for claims",
            about="Templates made and deleted, labels for the order of nodes, and writes that failed.",
            queries=(
                Query("sum by (what) (increase(gcushare_claims_writes_total[$__rate_interval]))", "{{what}}"),
                Query(
                    f"sum by (what) (increase({_FAILURES}[$__rate_interval]))",
                    "failed {{what}}",
                ),
            ),
            width=6,
        ),
    ),
)
