"""The cluster: is anything wrong, what still fits, who waits and why; ``workings`` has its lower half."""

from __future__ import annotations

from scripts.grafana.claims import CLAIMS
from scripts.grafana.model import (
    EXACTLY_ONE,
    FILLING,
    LOSING,
    NONE_IS_FINE,
    NONE_IS_GOOD,
    Column,
    Dashboard,
    Kind,
    Panel,
    Query,
    Row,
    Unit,
    Variable,
)
from scripts.grafana.queries import all_nodes, one, per_node
from scripts.grafana.usage import USAGE
from scripts.grafana.workings import CALLS, PODS, TRUTH

_NODE_LINK = (
    "/d/gcushare-node?${datasource:queryparam}&var-node=${__data.fields.node}"
    "&var-vendor=${__data.fields.vendor}&${__url_time_range}"
)


_GLANCE = Row(
    "At a glance",
    (
        Panel(
            kind=Kind.GAUGE,
            title="Memory granted",
            about="Units that pods hold, of all units of cards, for each memory unit in use.",
            queries=(Query(f"{one('gcushare_units_granted')} / {one('gcushare_units_total')}", "{{vendor}} {{unit}}"),),
            width=4,
            unit=Unit.SHARE,
            steps=FILLING,
            maximum=1,
        ),
        Panel(
            kind=Kind.STAT,
            title="Largest request that fits",
            about=(
                "The most units that one card can still give. A pod that asks for more stays Pending, however much is"
                " free in all."
            ),
            queries=(Query(one("gcushare_largest_request_units"), "{{vendor}} × {{unit}}"),),
            width=3,
        ),
        Panel(
            kind=Kind.BARS,
            title="Free memory lost to a request of so many units",
            about=(
                "The share of the free units that a request of this size cannot use, as it lies in smaller pieces. "
                "Nothing lost at 1 and all of it at a card's size is a cluster that only small pods can still fill."
            ),
            queries=(
                Query(f"sort({one('gcushare_fragmentation', 'vendor, unit, request')})", "{{request}} × {{unit}}"),
            ),
            width=6,
            unit=Unit.SHARE,
            steps=LOSING,
            maximum=1,
        ),
        Panel(
            kind=Kind.STAT,
            title="Pods that wait",
            about="Pods that ask for cards and are not bound. The reasons stand below.",
            queries=(Query(one("gcushare_pods_waiting", "vendor"), "{{vendor}}"),),
            width=3,
            steps=NONE_IS_FINE,
        ),
        Panel(
            kind=Kind.STAT,
            title="Leader",
            about="Replicas that serve the scheduler: exactly one. Without one, pods that ask for cards stay Pending.",
            queries=(Query("sum by (job) (gcushare_leader)", "{{job}}"),),
            width=2,
            steps=EXACTLY_ONE,
        ),
        Panel(
            kind=Kind.TABLE,
            title="Alerts that fire",
            about="Of the chart's rules (prometheusRule.enabled); docs/runbook.md says what to do.",
            queries=(
                Query(
                    'sum by (alertname, severity) (ALERTS{alertname=~"Gcushare.+", alertstate="firing"})', "how many"
                ),
            ),
            labels=("severity", "alertname"),
            width=6,
        ),
        Panel(
            kind=Kind.STAT,
            title="Nodes with cards",
            about="Nodes whose inventory the extender knows.",
            queries=(Query(one("gcushare_nodes"), "{{vendor}} {{unit}}"),),
            width=4,
            height=5,
        ),
        Panel(
            kind=Kind.BARS,
            title="Cards by use",
            about=(
                "Free cards can be given whole; shared ones hold pods that asked for memory; whole ones belong to one"
                " pod."
            ),
            queries=(Query(f"sum by (mode) ({one('gcushare_cards_by_mode', 'vendor, unit, mode')})", "{{mode}}"),),
            width=6,
            height=5,
        ),
        Panel(
            kind=Kind.STAT,
            title="Cards that take no new pods",
            about=(
                "Sick, or cordoned by an admin; pods that run there stay. Closed: to one use, as containers of a pod "
                "that was deleted by force may run on."
            ),
            queries=(
                Query(one("gcushare_cards_unusable"), "{{vendor}} {{unit}}"),
                Query(one("gcushare_cards_closed", "vendor, use"), "closed to {{use}} {{vendor}}"),
            ),
            width=4,
            height=5,
            steps=NONE_IS_FINE,
        ),
        Panel(
            kind=Kind.STAT,
            title="Nodes without units",
            about="Nodes that have cards, but whose kubelet counts no unit of them: no pod can start there.",
            queries=(Query(one("gcushare_nodes_without_units", "vendor"), "{{vendor}}"),),
            width=5,
            height=5,
            steps=NONE_IS_GOOD,
        ),
        Panel(
            kind=Kind.STAT,
            title="Memory without a record",
            about=(
                "Units that pods hold and no record reports: shown by the kubelet alone, or of bound pods whose card "
                "is not known yet. They count as taken."
            ),
            queries=(
                Query(one("gcushare_units_unrecorded"), "unrecorded {{vendor}} {{unit}}"),
                Query(one("gcushare_units_unplaced"), "card unknown {{vendor}} {{unit}}"),
            ),
            width=4,
            height=5,
            steps=NONE_IS_FINE,
        ),
        Panel(
            kind=Kind.STAT,
            title="Nodes and pods that cannot be read",
            about=(
                "Nodes with a damaged inventory take no pods. What pods with a damaged record ask for is kept free on "
                "every card that could hold it; for whole cards, or unreadable requests, nothing is."
            ),
            queries=(
                Query(one("gcushare_nodes_unreadable", "vendor"), "nodes {{vendor}}"),
                Query(one("gcushare_pods_unreadable", "vendor"), "pods {{vendor}}"),
            ),
            width=5,
            height=5,
            steps=NONE_IS_GOOD,
        ),
    ),
)

_MEMORY = Row(
    "Memory",
    (
        Panel(
            kind=Kind.LINES,
            title="Granted and really used",
            about=(
                "Bytes that pods were granted, bytes that the cards' drivers say are in use, and all there are. Used "
                "above granted is somebody who takes more than was asked for; far below is memory reserved in vain."
            ),
            queries=(
                Query(all_nodes("gcushare_card_granted_bytes"), "granted {{vendor}}"),
                Query(all_nodes("gcushare_card_memory_used_bytes"), "used {{vendor}}"),
                Query(all_nodes("gcushare_card_memory_bytes"), "all {{vendor}}"),
            ),
            width=12,
            unit=Unit.BYTES,
        ),
        Panel(
            kind=Kind.STACK,
            title="Units granted and free",
            about=(
                "What the extender's ledger counts. Units that are neither are kept back, sick, cordoned, or the rest"
                " of a card that a pod holds whole."
            ),
            queries=(
                Query(one("gcushare_units_granted"), "granted {{vendor}} × {{unit}}"),
                Query(one("gcushare_units_free"), "free {{vendor}} × {{unit}}"),
            ),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Largest request that fits",
            about=(
                "Falls before the free memory does where pods are spread over many cards; cardPolicy binpack keeps it"
                " high."
            ),
            queries=(Query(one("gcushare_largest_request_units"), "{{vendor}} × {{unit}}"),),
            width=8,
        ),
        Panel(
            kind=Kind.LINES,
            title="Free memory lost by size of request",
            about="The share of the free units that a request of this size cannot use.",
            queries=(Query(one("gcushare_fragmentation", "vendor, unit, request"), "{{request}} × {{unit}}"),),
            width=8,
            unit=Unit.SHARE,
            maximum=1,
        ),
        Panel(
            kind=Kind.STACK,
            title="Cards by use",
            about="Free, shared, or held whole.",
            queries=(Query(f"sum by (mode) ({one('gcushare_cards_by_mode', 'vendor, unit, mode')})", "{{mode}}"),),
            width=8,
        ),
    ),
)

_NODES = Row(
    "Nodes",
    (
        Panel(
            kind=Kind.TABLE,
            title="Nodes",
            about="A click on a node opens its own dashboard.",
            queries=(
                Query(per_node("count", "gcushare_card_units"), "cards"),
                Query(per_node("sum", "gcushare_card_healthy", " == bool 0"), "sick"),
                Query(per_node("max", "gcushare_plugin_pods"), "pods"),
                Query(per_node("sum", "gcushare_card_memory_bytes"), "memory"),
                Query(per_node("sum", "gcushare_card_granted_bytes"), "granted"),
                Query(per_node("sum", "gcushare_card_memory_used_bytes"), "used"),
                Query(
                    f"{per_node('sum', 'gcushare_card_granted_bytes')}"
                    f" / {per_node('sum', 'gcushare_card_memory_bytes')}",
                    "granted of all",
                ),
                Query(per_node("avg", "gcushare_card_utilization_percent"), "utilization"),
                Query(per_node("min", "gcushare_plugin_registered"), "registered"),
            ),
            labels=("vendor", "node"),
            columns=(
                Column(name="node", link=_NODE_LINK),
                Column(name="sick", steps=NONE_IS_GOOD),
                Column(name="memory", unit=Unit.BYTES),
                Column(name="granted", unit=Unit.BYTES),
                Column(name="used", unit=Unit.BYTES),
                Column(name="granted of all", unit=Unit.SHARE, steps=FILLING, maximum=1),
                Column(name="utilization", unit=Unit.PERCENT),
                Column(name="registered", steps=EXACTLY_ONE),
            ),
            width=24,
            height=10,
        ),
    ),
)

CLUSTER = Dashboard(
    uid="gcushare-cluster",
    title="GCUShare / Cluster",
    about="Accelerator cards that pods share by memory: what is granted, what still fits, who waits and why.",
    variables=(
        Variable(name="vendor", label="Vendor", query="label_values(gcushare_pods_waiting, vendor)", takes_many=True),
    ),
    rows=(_GLANCE, _MEMORY, _NODES, USAGE, PODS, CALLS, TRUTH, CLAIMS),
    other=("One node", "gcushare-node"),
)
