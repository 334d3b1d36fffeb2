"""Below the cluster's glance: waiting pods, the scheduler's calls, who leads, and how current the watch caches are."""

from __future__ import annotations

from scripts.grafana.model import NONE_IS_GOOD, Kind, Panel, Query, Row, Unit
from scripts.grafana.queries import OURS, one, quantile, rate

PODS = Row(
    "Pods",
    (
        Panel(
            kind=Kind.STACK,
            title="Pods that wait, by reason",
            about=(
                "fits: a card has room, something else keeps the pod. fragmented: enough is free, but not in one "
                "place. full: too little is free. never: larger than any card. refused: the request is malformed, or "
                "too large for any node."
            ),
            queries=(
                Query(
                    f"sum by (reason) ({one('gcushare_pods_waiting_by_reason', 'vendor, reason')})",
                    "{{reason}}",
                ),
            ),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Pods that hold cards",
            about="Bound pods of nodes with cards.",
            queries=(Query(one("gcushare_pods_holding"), "{{vendor}} {{unit}}"),),
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="Bindings under way",
            about=(
                "Bindings sent or about to be, and grants that no watch event has confirmed yet. Both are back at 0 "
                "within seconds of the last pod."
            ),
            queries=(
                Query(one("gcushare_binds_under_way", "vendor"), "under way {{vendor}}"),
                Query(one("gcushare_reservations", "vendor"), "unconfirmed {{vendor}}"),
            ),
            width=6,
        ),
    ),
)


CALLS = Row(
    "The scheduler's calls",
    (
        Panel(
            kind=Kind.LINES,
            title="Half of the calls are answered within",
            about=(
                "From a call of the scheduler to its answer, without the network. Bind contains one request to the "
                "API server."
            ),
            queries=(Query(quantile(0.5), "{{verb}}"),),
            width=8,
            unit=Unit.SECONDS,
        ),
        Panel(
            kind=Kind.LINES,
            title="99 of 100 calls are answered within",
            about="The scheduler gives the extender up after 5 seconds (scheduler.timeout).",
            queries=(Query(quantile(0.99), "{{verb}}"),),
            width=8,
            unit=Unit.SECONDS,
        ),
        Panel(
            kind=Kind.LINES,
            title="Answers",
            about=(
                "By verb and result. refused is a pod that fits nowhere; error is ours or the API server's; "
                "turned_away a call to a replica that does not serve."
            ),
            queries=(Query(rate("gcushare_extender_results_total", "verb, result"), "{{verb}} {{result}}"),),
            width=8,
            unit=Unit.PER_SECOND,
        ),
        Panel(
            kind=Kind.LINES,
            title="Bindings that did not go straight",
            about=(
                "Errors; refusals by the API server because the pod had changed; answers that were lost, so that the "
                "pod had to be read."
            ),
            queries=(
                Query(
                    rate("gcushare_extender_results_total", "vendor", ', verb="bind", result="error"'),
                    "errors {{vendor}}",
                ),
                Query(rate("gcushare_bind_conflicts_total", "vendor"), "conflicts {{vendor}}"),
                Query(rate("gcushare_bind_unknown_outcomes_total", "vendor"), "unknown outcomes {{vendor}}"),
            ),
            width=12,
            unit=Unit.PER_SECOND,
        ),
        Panel(
            kind=Kind.LINES,
            title="Refusals by reason",
            about=(
                "elsewhere: only nodes that the scheduler did not ask about have room; fragmented: enough is free, but "
                "not in one place; full; never: no node has as much; malformed requests; declined binds."
            ),
            queries=(
                Query(
                    rate("gcushare_extender_results_total", "verb, reason", ', result="refused"'),
                    "{{verb}} {{reason}}",
                ),
            ),
            width=8,
            unit=Unit.PER_SECOND,
        ),
        Panel(
            kind=Kind.LINES,
            title="Turned away before they were read",
            about=(
                "Connections and requests that no handler saw: too many, too large, too slow, malformed, without a "
                "certificate where one is asked for, or with a TLS handshake that failed."
            ),
            queries=(Query("sum by (cause) (rate(gcushare_turned_away_total[$__rate_interval]))", "{{cause}}"),),
            width=8,
            unit=Unit.PER_SECOND,
        ),
        Panel(
            kind=Kind.LINES,
            title="Events, explanations and notes",
            about=(
                "Events by what became of them, refusals explained, and waiting pods on which room was noted. What is "
                "dropped or failed is in no kubectl describe."
            ),
            queries=(
                Query("sum by (outcome) (rate(gcushare_events_total[$__rate_interval]))", "events {{outcome}}"),
                Query(rate("gcushare_refusal_reports_total", "outcome"), "refusals {{outcome}}"),
                Query(rate("gcushare_room_notes_total", "outcome"), "room {{outcome}}"),
            ),
            width=8,
            unit=Unit.PER_SECOND,
        ),
    ),
)

TRUTH = Row(
    "Availability and truth",
    (
        Panel(
            kind=Kind.STACK,
            title="Who leads",
            about="1 where a replica serves the scheduler; a gap is a time without one, 2 in all are two at once.",
            queries=(Query("gcushare_leader", "{{instance}}"),),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the watch caches",
            about=(
                "Since the API server last proved what each replica knows of nodes and pods. Saw teeth of about a "
                "minute are healthy."
            ),
            queries=(Query("gcushare_watch_age_seconds", "{{resource}} {{instance}}"),),
            width=8,
            unit=Unit.SECONDS,
        ),
        Panel(
            kind=Kind.LINES,
            title="Watches that broke or began again",
            about=(
                "Every list read again is a burst for the API server. Objects that could not be read are left out of "
                "the ledger."
            ),
            queries=(
                Query(
                    "sum by (resource) (increase(gcushare_watch_failures_total[$__rate_interval]))",
                    "broke: {{resource}}",
                ),
                Query(
                    "sum by (resource) (increase(gcushare_watch_lists_total[$__rate_interval]))", "listed: {{resource}}"
                ),
                Query(
                    "sum by (resource) (increase(gcushare_watch_undecodable_total[$__rate_interval]))",
                    "undecodable: {{resource}}",
                ),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.STAT,
            title="Replicas that answer the scheduler's calls to everyone",
            about="On port 32766, without a certificate: scheduler.verbs is plain or both.",
            queries=(Query("sum(gcushare_extender_open_verbs)", "replicas"),),
            width=8,
        ),
        Panel(
            kind=Kind.STAT,
            title="Drift of the ledger",
            about=(
                "Pods, sums and orders that the recount found wrong within the time shown, by the worst replica. Each "
                "was repaired; each is a fault of the program."
            ),
            queries=(
                Query(f"max by (vendor) (increase(gcushare_ledger_drifts_total{{{OURS}}}[$__range]))", "{{vendor}}"),
            ),
            width=4,
            steps=NONE_IS_GOOD,
        ),
        Panel(
            kind=Kind.LINES,
            title="Records corrected",
            about=(
                "Pods whose record named another card than the kubelet gave. Some are normal where many equal pods "
                "start at once."
            ),
            queries=(
                Query(
                    f"sum by (node) (increase(gcushare_plugin_record_corrections_total{{{OURS}}}"
                    "[$__rate_interval])) > 0",
                    "{{node}}",
                ),
            ),
            width=10,
        ),
        Panel(
            kind=Kind.TABLE,
            title="Versions",
            about=(
                "How many programs of each version answer. More than one version outside an upgrade is a rollout that"
                " stopped."
            ),
            queries=(Query("count by (program, version) (gcushare_build_info)", "how many"),),
            labels=("program", "version"),
            width=10,
        ),
    ),
)
