"""``-o json``, ``yaml`` and ``csv``: everything that is known, for programs.

Amounts of a node are in the node's own unit, whose word and bytes stand beside them; ``cluster`` is in ``unit``. Fields
are only added, never renamed: ``version`` tells otherwise.
"""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import msgspec

from gcushare.cli.inspect.marks import Mark, marks_of_card
from gcushare.cli.inspect.summary import NodeSummary, Summary, share_of
from gcushare.cluster.snapshot import PodFacts
from gcushare.core.cards import Health, describe_closure
from gcushare.core.nodes import Assignment, CardState

DOCUMENT_VERSION = 1


class _Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class PodEntry(_Entry, frozen=True):
    """What one pod holds of one card; ``corrected`` is ``0->1`` where the kubelet gave it another card."""

    namespace: str
    name: str
    uid: str
    state: str
    allocated: int
    whole: bool
    corrected: str


class CardEntry(_Entry, frozen=True):
    """One card."""

    index: int
    uuid: str
    model: str
    total: int
    allocated: int
    free: int
    reserved: int
    mode: str
    health: str
    reason: str
    cordoned: bool
    closed: list[str]
    marks: list[str]
    pods: list[PodEntry]


class NodeEntry(_Entry, frozen=True):
    """One node; ``unit`` is empty and ``unit_bytes`` 0 where it does not tell.

    ``modes``: what its plugin serves, ``memory`` or ``whole``; ``whole_cards_free``: cards that a pod may have whole.
    """

    name: str
    address: str
    status: str
    unit: str
    unit_bytes: int
    total: int
    allocated: int
    pending: int
    modes: list[str]
    whole_cards_free: int
    cards: list[CardEntry]


class WaitingPodEntry(_Entry, frozen=True):
    """A pod that asks for cards and holds none yet, or none that can be told; ``node`` where it is bound or nominated.

    ``units`` and ``whole_cards`` are what it asks for, 0 where not even that can be read.
    """

    namespace: str
    name: str
    uid: str
    state: str
    node: str
    units: int
    whole_cards: int
    problem: str


class ClusterEntry(_Entry, frozen=True):
    """The sums."""

    nodes: int
    cards: int
    total: float
    allocated: float
    percent: int


class InspectReport(_Entry, frozen=True):
    """The whole document; ``source`` is ``extender`` or ``api``.

    ``untold``: bound pods that hold cards that are not known; no figure of the document has what they hold.
    """

    version: int
    vendor: str
    source: str
    unit: str
    cluster: ClusterEntry
    nodes: list[NodeEntry]
    pending: list[WaitingPodEntry]
    untold: list[WaitingPodEntry]
    problems: list[str]


def report_of(summary: Summary) -> InspectReport:
    """Describe a summary."""
    waits = [*summary.waiting, *(facts for node in summary.nodes for facts in node.pending_pods if facts.node)]
    return InspectReport(
        version=DOCUMENT_VERSION,
        vendor=summary.snapshot.vendor.name,
        source=summary.snapshot.source.name,
        unit=summary.scale.label,
        cluster=ClusterEntry(
            nodes=len(summary.nodes),
            cards=sum(len(node.state.cards) for node in summary.nodes),
            total=_number(summary.total),
            allocated=_number(summary.allocated),
            percent=summary.percent,
        ),
        nodes=[_node_entry(summary, node) for node in summary.nodes],
        pending=[_waiting_entry(facts) for facts in waits],
        untold=[_waiting_entry(facts) for node in summary.nodes for facts in node.unplaced_pods],
        problems=[*summary.snapshot.problems, *node_problems(summary)],
    )


def node_problems(summary: Summary) -> list[str]:
    """Nodes whose cards cannot be read, one line each."""
    nodes = summary.snapshot.nodes
    return [f"node {name}: {nodes[name].problem}" for name in sorted(nodes) if nodes[name].problem]


def to_json(report: object) -> str:
    """Write a report as JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def to_yaml(report: object) -> str:
    """Write a report as YAML."""
    # Imported where YAML is asked for: 40 ms that tables need not spend.
    from ruamel.yaml import YAML

    yaml = YAML()
    text = io.StringIO()
    yaml.dump(msgspec.to_builtins(report), text)
    return text.getvalue()


def to_csv(summary: Summary) -> str:
    """Write one line per card, with the pods on it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["node", "address", "status", "unit", "card", "uuid", "model", "total", "allocated", "free", "health",
         "cordoned", "mode", "pods"]
    )  # fmt: skip
    for node in report_of(summary).nodes:
        for card in node.cards:
            pods = " ".join(f"{pod.namespace}/{pod.name}={pod.allocated}" for pod in card.pods)
            writer.writerow(
                [node.name, node.address, node.status, node.unit, card.index, card.uuid, card.model, card.total,
                 card.allocated, card.free, card.health, str(card.cordoned).lower(), card.mode, pods]
            )  # fmt: skip
    return text.getvalue()


def _node_entry(summary: Summary, node: NodeSummary) -> NodeEntry:
    unit = node.state.unit
    return NodeEntry(
        name=node.name,
        address=node.facts.address,
        status=node.facts.status,
        unit=unit.label if unit is not None else "",
        unit_bytes=unit.bytes_of(1) if unit is not None else 0,
        total=node.state.total,
        allocated=node.state.used,
        pending=sum(facts.units for facts in node.pending_pods),
        modes=list(node.state.modes),
        whole_cards_free=node.state.empty_cards,
        cards=[_card_entry(summary, node, state) for state in node.state.cards.values()],
    )


def _card_entry(summary: Summary, node: NodeSummary, state: CardState) -> CardEntry:
    offered = state.card
    marks = [mark.name.lower() for mark in marks_of_card(state)]
    if state.index in node.corrected_cards:
        marks.append(Mark.CORRECTED.name.lower())
    return CardEntry(
        index=state.index,
        uuid=offered.card.uuid if offered is not None else "",
        model=offered.card.model if offered is not None else "",
        total=state.total,
        allocated=state.held,
        free=state.grantable,
        reserved=offered.reserved_units if offered is not None else 0,
        mode=state.mode.value,
        health=(offered.health if offered is not None else Health.UNHEALTHY).value,
        reason=offered.reason if offered is not None else "pods name this card, but the node does not have it",
        cordoned=offered.cordoned if offered is not None else False,
        closed=[describe_closure(each) for each in offered.closures] if offered is not None else [],
        marks=marks,
        pods=[_pod_entry(summary, state, each) for each in summary.shown_pods(node) if _is_on(each, state.index)],
    )


def _is_on(assignment: Assignment, index: int) -> bool:
    return any(grant.index == index for grant in assignment.grants)


def _pod_entry(summary: Summary, state: CardState, assignment: Assignment) -> PodEntry:
    facts = summary.facts_of(assignment)
    grant = next(grant for grant in assignment.grants if grant.index == state.index)
    return PodEntry(
        namespace=facts.ref.namespace,
        name=facts.ref.name,
        uid=facts.ref.uid,
        state=facts.state,
        allocated=share_of(grant.units, state, grant.whole),
        whole=grant.whole,
        corrected=facts.corrected,
    )


def _waiting_entry(facts: PodFacts) -> WaitingPodEntry:
    return WaitingPodEntry(
        namespace=facts.ref.namespace,
        name=facts.ref.name,
        uid=facts.ref.uid,
        state=facts.state,
        node=facts.node or facts.nominated,
        units=facts.units,
        whole_cards=facts.whole_cards,
        problem=facts.problem,
    )


def _number(amount: Fraction) -> float:
    return amount.numerator if amount.denominator == 1 else float(amount)
