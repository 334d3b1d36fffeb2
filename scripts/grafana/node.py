"""One node: its cards with what is granted and really used, who holds them, and how plugin and kubelet get along."""

from __future__ import annotations

from scripts.grafana.claims import CLAIMS_ON_NODE
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
from scripts.grafana.node_kubelet import KUBELET
from scripts.grafana.node_queries import HERE, OF_POD, by_card, by_pod, in_all, row_of_card


def _lines_by_card(
    title: str, metric: str, about: str, *, width: int, unit: Unit, maximum: float | None = None
) -> Panel:
    """A line for each card."""
    return Panel(
        kind=Kind.LINES,
        title=title,
        about=about,
        queries=(Query(by_card(metric), "{{vendor}} {{card}}"),),
        width=width,
        unit=unit,
        maximum=maximum,
    )


_GLANCE = Row(
    "At a glance",
    (
        Panel(
            kind=Kind.STAT,
            title="Registered with the kubelet",
            about="1 while the kubelet reads the plugin's list. At 0 no new pod can start here.",
            queries=(Query(f"min by (resource) (gcushare_plugin_registered{{{HERE}}})", "{{resource}}"),),
            width=4,
            height=5,
            steps=SOME_IS_GOOD,
        ),
        Panel(
            kind=Kind.STAT,
            title="Cards",
            about="Cards that this node offers, sick and cordoned ones among them.",
            queries=(Query(f"count by (vendor) (gcushare_card_units{{{HERE}}})", "{{vendor}}"),),
            width=4,
            height=5,
        ),
        Panel(
            kind=Kind.STAT,
            title="Sick or cordoned",
            about="Cards that take no new pods; those on them stay.",
            queries=(
                Query(in_all("gcushare_card_healthy", " == bool 0"), "sick {{vendor}}"),
                Query(in_all("gcushare_card_cordoned"), "cordoned {{vendor}}"),
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
                    f"{in_all('gcushare_card_granted_bytes')} / {in_all('gcushare_card_memory_bytes')}",
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
                    f"{in_all('gcushare_card_memory_used_bytes')} / {in_all('gcushare_card_memory_bytes')}",
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
            queries=(Query(in_all("gcushare_plugin_pods"), "{{vendor}}"),),
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
                Query(row_of_card("gcushare_card_healthy"), "healthy"),
                Query(row_of_card("gcushare_card_cordoned"), "cordoned"),
                Query(row_of_card("gcushare_card_units"), "units"),
                Query(row_of_card("gcushare_card_granted_units"), "granted units"),
                Query(row_of_card("gcushare_card_reserved_units"), "kept back"),
                Query(row_of_card("gcushare_card_unrecorded_units"), "without a record"),
                Query(row_of_card("gcushare_card_memory_bytes"), "memory"),
                Query(row_of_card("gcushare_card_granted_bytes"), "granted"),
                Query(row_of_card("gcushare_card_memory_used_bytes"), "used"),
                Query(row_of_card("gcushare_card_utilization_percent"), "utilization"),
                Query(row_of_card("gcushare_card_temperature_celsius"), "temperature"),
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
                    f"{by_card('gcushare_card_granted_bytes')} / {by_card('gcushare_card_memory_bytes')}",
                    "{{vendor}} {{card}}",
                ),
            ),
            width=6,
            unit=Unit.SHARE,
            steps=FILLING,
            maximum=1,
        ),
        _lines_by_card(
            "Granted, by card", "gcushare_card_granted_bytes", "Bytes that pods hold.", width=6, unit=Unit.BYTES
        ),
        _lines_by_card(
            "Really used, by card",
            "gcushare_card_memory_used_bytes",
            "Bytes that the driver says are in use, its own among them.",
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
                    f"clamp_min({by_card('gcushare_card_memory_used_bytes')} - {by_card('gcushare_card_granted_bytes')}"
                    f" - {by_card('gcushare_card_reserved_bytes')}, 0)",
                    "{{vendor}} {{card}}",
                ),
            ),
            width=6,
            unit=Unit.BYTES,
        ),
        _lines_by_card(
            "Utilization",
            "gcushare_card_utilization_percent",
            "As the driver counts it; empty where its library does not tell.",
            width=8,
            unit=Unit.PERCENT,
            maximum=100,
        ),
        _lines_by_card(
            "Temperature",
            "gcushare_card_temperature_celsius",
            "Empty where the driver's library does not tell.",
            width=8,
            unit=Unit.CELSIUS,
        ),
        _lines_by_card(
            "Power",
            "gcushare_card_power_watts",
            "Empty where the driver's library does not tell.",
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
                "According to the kubelet. A call that it has not confirmed yet is counted for the pod that it was "
                "probably for. Used: if the plugin runs with --pod-use."
            ),
            queries=(
                Query(
                    f"max by ({OF_POD}) (gcushare_pod_granted_bytes{{{HERE}}})",
                    "granted",
                ),
                Query(f"max by ({OF_POD}) (gcushare_pod_memory_used_bytes{{{HERE}}})", "used"),
                Query(f"max by ({OF_POD}) (gcushare_pod_utilization_percent{{{HERE}}})", "utilization"),
            ),
            labels=("vendor", "card", "pod_namespace", "pod_name"),
            columns=(
                Column(name="granted", unit=Unit.BYTES),
                Column(name="used", unit=Unit.BYTES),
                Column(name="utilization", unit=Unit.PERCENT),
            ),
            width=12,
        ),
        Panel(
            kind=Kind.STACK,
            title="Granted, by namespace",
            about="Bytes of this node's cards.",
            queries=(Query(f"sum by (pod_namespace) (gcushare_pod_granted_bytes{{{HERE}}})", "{{pod_namespace}}"),),
            width=12,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Really used, by pod",
            about="Bytes that the pod's processes hold of a card. Empty where the plugin runs without --pod-use.",
            queries=(Query(by_pod("gcushare_pod_memory_used_bytes"), "{{card}} {{pod_namespace}}/{{pod_name}}"),),
            width=8,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Used above granted, by pod",
            about="Who takes from the neighbours. Empty where the plugin runs without --pod-use.",
            queries=(
                Query(
                    f"clamp_min({by_pod('gcushare_pod_memory_used_bytes')}"
                    f" - {by_pod('gcushare_pod_memory_granted_bytes')}, 0)",
                    "{{card}} {{pod_namespace}}/{{pod_name}}",
                ),
            ),
            width=8,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Pods over their grant",
            about=(
                "Bytes beyond the grant, above the tolerance in several looks: what Events and the annotation report. "
                "Empty where the plugin runs without --pod-use."
            ),
            queries=(Query(by_pod("gcushare_pod_over_use_bytes"), "{{card}} {{pod_namespace}}/{{pod_name}}"),),
            width=12,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.LINES,
            title="Over-uses that began, and evictions",
            about="Per hour. Evictions by outcome, where the plugin runs with --over-use evict or --idle evict.",
            queries=(
                Query(f"sum(increase(gcushare_plugin_over_uses_total{{{HERE}}}[1h]))", "began"),
                Query(
                    f"sum by (outcome) (increase(gcushare_plugin_over_use_evictions_total{{{HERE}}}[1h]))",
                    "{{outcome}}",
                ),
                Query(
                    f"sum by (outcome) (increase(gcushare_plugin_idle_evictions_total{{{HERE}}}[1h]))",
                    "idle: {{outcome}}",
                ),
            ),
            width=12,
        ),
        _lines_by_card(
            "Used by processes of no pod, by card",
            "gcushare_card_memory_unattributed_bytes",
            (
                "Processes outside Kubernetes, or of pods that did not ask for a card. Empty where the plugin runs "
                "without --pod-use."
            ),
            width=8,
            unit=Unit.BYTES,
        ),
    ),
)

NODE = Dashboard(
    uid="gcushare-node",
    title="GCUShare / Node",
    about="One node's cards: granted and really used, who holds them, and how the plugin and the kubelet get along.",
    variables=(
        Variable(name="vendor", label="Vendor", query="label_values(gcushare_card_units, vendor)", takes_many=True),
        Variable(name="node", label="Node", query='label_values(gcushare_card_units{vendor=~"$vendor"}, node)'),
    ),
    rows=(_GLANCE, _CARDS, _PODS, KUBELET, CLAIMS_ON_NODE),
    other=("Cluster", "gcushare-cluster"),
)
