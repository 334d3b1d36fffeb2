"""``-o json`` and ``yaml``: everything that is known, for programs.

Amounts of a node are in the node's own unit, given there with its name and bytes; ``cluster`` is in ``unit``. Fields
are only added, never renamed: ``version`` says otherwise.
"""

from __future__ import annotations

from fractions import Fraction

from gcushare.cli.kubectl.summary import NodeSummary, Summary, marks_of_card
from gcushare.cli.terminal.output import Document
from gcushare.cluster.snapshot import PodFacts
from gcushare.core.card_state import CardState
from gcushare.core.cards import Health, describe_closure

DOCUMENT_VERSION = 1


def document_of(summary: Summary) -> Document:
    """Describe a summary.

    ``source`` is ``extender`` or ``api``; ``pending`` are pods that hold no card yet; ``unplaced`` are bound pods that
    hold cards that are not known: no figure of the document has what they hold.
    """
    pending = [facts for node in summary.nodes for facts in node.pending_pods if facts.node]
    waits = [*summary.waiting, *summary.shown(pending)]
    unplaced = summary.shown(facts for node in summary.nodes for facts in node.unplaced_pods)
    return {
        "version": DOCUMENT_VERSION,
        "vendor": summary.snapshot.vendor.name,
        "source": summary.snapshot.source.name,
        "unit": summary.scale.label,
        "cluster": {
            "nodes": len(summary.nodes),
            "cards": sum(len(node.state.cards) for node in summary.nodes),
            "total": _number(summary.total),
            "allocated": _number(summary.allocated),
            "percent": summary.percent,
            "free": _number(summary.free),
            "freeIfTolerated": _number(summary.free_if_tolerated),
        },
        "nodes": [_node(summary, node) for node in summary.nodes],
        "pending": [_pod_without_card(facts) for facts in waits],
        "unplaced": [_pod_without_card(facts) for facts in unplaced],
        "problems": [*summary.snapshot.problems, *summary.snapshot.node_problems()],
    }


def _node(summary: Summary, node: NodeSummary) -> Document:
    """``unit`` is empty and ``unitBytes`` 0 if the node does not say; ``modes``: ``memory`` or ``whole``.

    A node that takes no pods (``takesPods``) has nothing free, whatever its cards hold; one with ``taints`` takes only
    pods that tolerate them.
    """
    unit = node.state.unit
    return {
        "name": node.name,
        "address": node.facts.address,
        "status": node.facts.status,
        "takesPods": node.facts.takes_pods,
        "taints": list(node.facts.taints),
        "unit": unit.label if unit is not None else "",
        "unitBytes": unit.bytes_of(1) if unit is not None else 0,
        "total": node.state.total,
        "allocated": node.state.used,
        "pending": sum(facts.units for facts in node.pending_pods),
        "modes": list(node.state.modes),
        "wholeCardsFree": node.whole_cards_free,
        "cards": [_card(summary, node, state) for state in node.state.cards.values()],
    }


def _card(summary: Summary, node: NodeSummary, state: CardState) -> Document:
    offered = state.card
    marks = [mark.name.lower() for mark in marks_of_card(state, node)]
    return {
        "index": state.index,
        "minor": offered.minor_number if offered is not None else state.index,
        "uuid": offered.uuid if offered is not None else "",
        "model": offered.model if offered is not None else "",
        "total": state.total,
        "allocated": state.held,
        "free": state.available if node.facts.takes_pods else 0,
        "reserved": offered.reserved_units if offered is not None else 0,
        "driverBytes": offered.driver_bytes if offered is not None else 0,
        "mode": state.mode.value,
        "health": (offered.health if offered is not None else Health.UNHEALTHY).value,
        "reason": offered.reason if offered is not None else "pods name this card, but the node does not have it",
        "cordoned": offered is not None and offered.cordoned,
        "closed": [describe_closure(each) for each in offered.closures] if offered is not None else [],
        "marks": marks,
        "pods": _pods(summary, node, state),
    }


def _pods(summary: Summary, node: NodeSummary, state: CardState) -> list[Document]:
    """What each pod holds of a card; ``corrected`` is ``0->1`` if the kubelet gave it another card.

    ``overUse``: what it uses beyond its grant and since when, in words; empty if it does not. ``sharedWith``: other
    pods of the same claim, which counts here alone.
    """
    found = []
    for assignment in summary.shown_pods(node):
        facts = summary.facts_of(assignment)
        found += [
            {
                **_identity(facts),
                "allocated": state.share(grant),
                "whole": grant.whole,
                "corrected": facts.corrected,
                "overUse": facts.over_use,
                "sharedWith": [str(pod) for pod in summary.snapshot.claims.pods_sharing_with(facts.ref.uid)],
            }
            for grant in assignment.grants
            if grant.index == state.index
        ]
    return found


def _pod_without_card(facts: PodFacts) -> Document:
    """``node`` if it is bound or nominated; amounts are what it asks for, 0 if that cannot be read."""
    return {
        **_identity(facts),
        "node": facts.node or facts.nominated,
        "units": facts.units,
        "wholeCards": facts.whole_cards,
        "problem": facts.problem,
    }


def _identity(facts: PodFacts) -> Document:
    return {"namespace": facts.ref.namespace, "name": facts.ref.name, "uid": facts.ref.uid, "state": facts.state}


def _number(amount: Fraction) -> float:
    return amount.numerator if amount.denominator == 1 else float(amount)
