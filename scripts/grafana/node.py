"""One node: its cards with what is granted and really used, who holds them, and how plugin and kubelet get along."""

from __future__ import annotations

from scripts.grafana.model import (
    FILLING,
    NONE_IS_FINE,
    SOME_IS_GOOD,
    Column,
    Dashboard,
    Kind,
    Panel,
    Query,
    Row,
    Unit,
    Variable,
)

_HERE = 'vendor=~"$vendor", node="$node"'
_OF_POD = "vendor, card, pod_namespace, pod_name"
_THIS_PLUGIN = f"on (job, instance) gcushare_plugin_pods{{{_HERE}}}"
"""Joins figures that know no node to the plugin that serves them."""


def _card(metric: str) -> str:
    return f"sum by (vendor, card) ({metric}{{{_HERE}}})"


def _pod(metric: str) -> str:
    return f"sum by ({_OF_POD}) ({metric}{{{_HERE}}})"


def _sum(metric: str, condition: str = "") -> str:
    return f"sum by (vendor) ({metric}{{{_HERE}}}{condition})"


def _row_of_card(metric: str) -> str:
    return f"max by (vendor, card, uuid, model) ({metric}{{{_HERE}}})"


def _increase(metric: str, by: str = "vendor") -> str:
    return f"sum by ({by}) (increase({metric}{{{_HERE}}}[$__rate_interval]))"


_GLANCE = Row(
    "At a glance",
    (
        Panel(
            kind=Kind.STAT,
            title="Registered with the kubelet",
            about="1 while the kubelet reads the plugin's list. At 0 no new pod can start here.",
            queries=(Query(f"min by (resource) (gcushare_plugin_registered{{{_HERE}}})", "{{resource}}"),),
            width=4,
            height=5,
            steps=SOME_IS_GOOD,
        ),
        Panel(
            kind=Kind.STAT,
            title="Cards",
            about="Cards that this node offers, sick and cordoned ones among them.",
            queries=(Query(f"count by (vendor) (gcushare_card_units{{{_HERE}}})", "{{vendor}}"),),
            width=4,
            height=5,
        ),
        Panel(
            kind=Kind.STAT,
            title="Sick or cordoned",
            about="Cards that take no new pods; those on them stay.",
            queries=(
                Query(_sum("gcushare_card_healthy", " == bool 0"), "sick {{vendor}}"),
                Query(_sum("gcushare_card_cordoned"), "cordoned {{vendor}}"),
            ),
            width=4,
            height=5,
            steps=NONE_IS_FINE,
        ),
        Panel(
            kind=Kind.GAUGE,
            title="Memory granted",
            about="Bytes that pods hold, of all memory of the cards.",
            queries=(
                Query(
                    f"{_sum('gcushare_card_granted_bytes')} / {_sum('gcushare_card_memory_bytes')}",
                    "{{vendor}}",
                ),
            ),
            width=4,
            height=5,
            unit=Unit.SHARE,
            steps=FILLING,
            maximum=1,
        ),
        Panel(
            kind=Kind.GAUGE,
            title="Memory in use",
            about=(
                "Bytes that the driver says are in use, of all memory of the cards. Empty where its library does not "
                "tell."
            ),
            queries=(
                Query(
                    f"{_sum('gcushare_card_memory_used_bytes')} / {_sum('gcushare_card_memory_bytes')}",
                    "{{vendor}}",
                ),
            ),
            width=4,
            height=5,
            unit=Unit.SHARE,
            steps=FILLING,
            maximum=1,
        ),
        Panel(
            kind=Kind.STAT,
            title="Pods",
            about="Pods of this node that ask for cards.",
            queries=(Query(_sum("gcushare_plugin_pods"), "{{vendor}}"),),
            width=4,
            height=5,
        ),
    ),
)

_CARDS = Row(
    "Cards",
    (
        Panel(
            kind=Kind.TABLE,
            title="Cards",
            about="Units are the node's memory unit. healthy and cordoned: 1 is yes.",
            queries=(
                Query(_row_of_card("gcushare_card_healthy"), "healthy"),
                Query(_row_of_card("gcushare_card_cordoned"), "cordoned"),
                Query(_row_of_card("gcushare_card_units"), "units"),
                Query(_row_of_card("gcushare_card_granted_units"), "granted units"),
                Query(_row_of_card("gcushare_card_reserved_units"), "kept back"),
                Query(_row_of_card("gcushare_card_memory_bytes"), "memory"),
                Query(_row_of_card("gcushare_card_granted_bytes"), "granted"),
                Query(_row_of_card("gcushare_card_memory_used_bytes"), "used"),
                Query(_row_of_card("gcushare_card_utilization_percent"), "utilization"),
                Query(_row_of_card("gcushare_card_temperature_celsius"), "temperature"),
            ),
            labels=("vendor", "card", "model", "uuid"),
            columns=(
                Column(name="healthy", steps=SOME_IS_GOOD),
                Column(name="cordoned", steps=NONE_IS_FINE),
                Column(name="memory", unit=Unit.BYTES),
                Column(name="granted", unit=Unit.BYTES),
                Column(name="used", unit=Unit.BYTES),
                Column(name="utilization", unit=Unit.PERCENT),
                Column(name="temperature", unit=Unit.CELSIUS),
            ),
            width=24,
        ),
        Panel(
            kind=Kind.BARS,
            title="Granted",
            about="The share of each card's memory that pods hold: what this node looks like to the scheduler.",
            queries=(
                Query(
                    f"{_card('gcushare_card_granted_bytes')} / {_card('gcushare_card_memory_bytes')}",
                    "{{vendor}} {{card}}",
                ),
            ),
            width=6,
            unit=Unit.SHARE,
            steps=FILLING,
            maximum=1,
        ),
        Panel(
            kind=Kind.LINES,
            title="Granted, by card",
            about="Bytes that pods hold.",
            queries=(Query(_card("gcushare_card_granted_bytes"), "{{vendor}} {{card}}"),),
            width=6,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Really used, by card",
            about="Bytes that the driver says are in use, its own among them.",
            queries=(Query(_card("gcushare_card_memory_used_bytes"), "{{vendor}} {{card}}"),),
            width=6,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Used above granted",
            about=(
                "By how much more is in use than was granted and kept back. A driver holds up to a 32nd of each card "
                "for itself; more than that is a pod that takes from its neighbours, or a process outside Kubernetes."
            ),
            queries=(
                Query(
                    f"clamp_min({_card('gcushare_card_memory_used_bytes')} - {_card('gcushare_card_granted_bytes')}"
                    f" - {_card('gcushare_card_reserved_bytes')}, 0)",
                    "{{vendor}} {{card}}",
                ),
            ),
            width=6,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Utilization",
            about="As the driver counts it; empty where its library does not tell.",
            queries=(Query(_card("gcushare_card_utilization_percent"), "{{vendor}} {{card}}"),),
            width=8,
            unit=Unit.PERCENT,
            maximum=100,
        ),
        Panel(
            kind=Kind.LINES,
            title="Temperature",
            about="Empty where the driver's library does not tell.",
            queries=(Query(_card("gcushare_card_temperature_celsius"), "{{vendor}} {{card}}"),),
            width=8,
            unit=Unit.CELSIUS,
        ),
        Panel(
            kind=Kind.LINES,
            title="Power",
            about="Empty where the driver's library does not tell.",
            queries=(Query(_card("gcushare_card_power_watts"), "{{vendor}} {{card}}"),),
            width=8,
            unit=Unit.WATTS,
        ),
    ),
)

_PODS = Row(
    "Pods",
    (
        Panel(
            kind=Kind.TABLE,
            title="Who holds what",
            about=(
                "By the kubelet's own record; a call that it has not confirmed yet is counted for whom it probably "
                "was. Used: where the plugin runs with --pod-use."
            ),
            queries=(
                Query(
                    f"max by ({_OF_POD}) (gcushare_pod_granted_bytes{{{_HERE}}})",
                    "granted",
                ),
                Query(f"max by ({_OF_POD}) (gcushare_pod_memory_used_bytes{{{_HERE}}})", "used"),
            ),
            labels=("vendor", "card", "pod_namespace", "pod_name"),
            columns=(Column(name="granted", unit=Unit.BYTES), Column(name="used", unit=Unit.BYTES)),
            width=12,
        ),
        Panel(
            kind=Kind.STACK,
            title="Granted, by namespace",
            about="Bytes of this node's cards.",
            queries=(Query(f"sum by (pod_namespace) (gcushare_pod_granted_bytes{{{_HERE}}})", "{{pod_namespace}}"),),
            width=12,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Really used, by pod",
            about="Bytes that the pod's processes hold of a card. Empty where the plugin runs without --pod-use.",
            queries=(Query(_pod("gcushare_pod_memory_used_bytes"), "{{card}} {{pod_namespace}}/{{pod_name}}"),),
            width=8,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Used above granted, by pod",
            about="Who takes from the neighbours. Empty where the plugin runs without --pod-use.",
            queries=(
                Query(
                    f"clamp_min({_pod('gcushare_pod_memory_used_bytes')}"
                    f" - {_pod('gcushare_pod_memory_granted_bytes')}, 0)",
                    "{{card}} {{pod_namespace}}/{{pod_name}}",
                ),
            ),
            width=8,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Used by processes of no pod, by card",
            about=(
                "Processes outside Kubernetes, or of pods that did not ask for a card. Empty where the plugin runs "
                "without --pod-use."
            ),
            queries=(Query(_card("gcushare_card_memory_unattributed_bytes"), "{{vendor}} {{card}}"),),
            width=8,
            unit=Unit.BYTES,
        ),
    ),
)

_KUBELET = Row(
    "Plugin and kubelet",
    (
        Panel(
            kind=Kind.LINES,
            title="99 of 100 calls of the kubelet are answered within",
            about="Waiting for a pod that the plugin has not seen yet is part of it.",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (call, le) ("
                    f"rate(gcushare_plugin_call_seconds_bucket[$__rate_interval]) and {_THIS_PLUGIN}))",
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
                    f"increase(gcushare_plugin_call_seconds_count[$__rate_interval]) and {_THIS_PLUGIN})",
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
            queries=(Query(_increase("gcushare_plugin_registrations_total", "resource"), "{{resource}}"),),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Records on pods",
            about="Written, corrected because the kubelet gave another card, and writes that failed.",
            queries=(
                Query(_increase("gcushare_plugin_record_writes_total"), "written {{vendor}}"),
                Query(_increase("gcushare_plugin_record_corrections_total"), "corrected {{vendor}}"),
                Query(_increase("gcushare_plugin_record_write_failures_total"), "failed {{vendor}}"),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Looks at the kubelet's record",
            about="podresources, or the checkpoint. Without them, which pod holds which card is a guess.",
            queries=(
                Query(_increase("gcushare_plugin_kubelet_record_reads_total"), "looks {{vendor}}"),
                Query(_increase("gcushare_plugin_kubelet_record_failures_total"), "failed {{vendor}}"),
            ),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Open questions",
            about="Allocations that the kubelet's record has not shown yet, and containers with ids of another plugin.",
            queries=(
                Query(_sum("gcushare_plugin_unconfirmed_allocations"), "unconfirmed {{vendor}}"),
                Query(_sum("gcushare_plugin_foreign_containers"), "foreign {{vendor}}"),
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
                    f"rate(gcushare_plugin_api_requests_total[$__rate_interval]) and {_THIS_PLUGIN})",
                    "{{verb}} {{resource}} {{code}}",
                ),
            ),
            width=12,
            unit=Unit.PER_SECOND,
        ),
        Panel(
            kind=Kind.LINES,
            title="Age of the picture of the pods",
            about=(
                "Since the API server last proved it. Saw teeth of about a minute are healthy; pods bound since are "
                "placed by the plugin itself."
            ),
            queries=(Query(f"max by (vendor) (gcushare_plugin_watch_age_seconds{{{_HERE}}})", "{{vendor}}"),),
            width=12,
            unit=Unit.SECONDS,
        ),
    ),
)

NODE = Dashboard(
    uid="gcushare-node",
    title="GCUShare / Node",
    about="One node's cards: granted and really used, who holds them, and how the plugin and the kubelet get along.",
    variables=(
        Variable(
            name="vendor", label="Vendor", query="label_values(gcushare_plugin_registered, vendor)", takes_many=True
        ),
        Variable(name="node", label="Node", query='label_values(gcushare_plugin_registered{vendor=~"$vendor"}, node)'),
    ),
    rows=(_GLANCE, _CARDS, _PODS, _KUBELET),
    other=("Cluster", "gcushare-cluster"),
)
