"""How many more nodes the waiting pods need, as a document for programs and as text for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gcushare.core.nodes import NodeState
from gcushare.core.packing.nodes_needed import NodeCount, NodesNeeded
from gcushare.wire.untrusted_json import Int


class ClassNeedDocument(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What nodes of one class would do for the waiting pods: ``nodes`` more hold ``pods`` that no present node holds.

    ``node_class``: see ``core.packing.nodes_needed.CLASS_FORM``. ``too_large``: pods that fit on no such node, even if
    it is empty. ``present``: nodes of the class that exist. ``wanted``: how many a scaler should keep: ``nodes`` more
    than there are, or if none is needed, those whose cards pods hold.
    """

    node_class: str
    nodes: Int
    pods: Int
    too_large: Int
    present: Int
    wanted: Int


class NodesNeededDocument(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The waiting pods, and each class of nodes. ``fit_now`` of the pods need no further node.

    ``left_out``: pods that were not placed on trial, because the pods are of too many kinds.
    """

    version: Int
    waiting: Int
    fit_now: Int
    left_out: Int
    classes: tuple[ClassNeedDocument, ...]


def describe_class(name: str, need: NodesNeeded, present: Sequence[NodeState]) -> ClassNeedDocument:
    """Describe what was counted for a class that has these nodes."""
    used = sum(bool(node.assignments) for node in present)
    wanted = len(present) + need.nodes if need.nodes else used
    return ClassNeedDocument(name, need.nodes, need.pods, need.too_large, len(present), wanted)


def make_nodes_needed(counted: NodeCount, classes: Sequence[ClassNeedDocument]) -> NodesNeededDocument:
    """Describe a count for the classes."""
    return NodesNeededDocument(1, counted.pods, counted.fit_now, counted.left_out, tuple(classes))


def render_nodes_needed(document: NodesNeededDocument) -> str:
    """Describe it for people, one line per class."""
    lines = [f"{document.waiting} pods wait for cards; {document.fit_now} of them fit on present nodes"]
    for each in document.classes:
        large = f"; {each.too_large} pods do not fit on an empty one" if each.too_large else ""
        lines.append(f"{each.node_class}: {each.nodes} more nodes hold {each.pods} pods{large}")
    if document.left_out:
        lines.append(f"{document.left_out} pods were not counted: there are too many kinds of pods")
    return "\n".join(lines) + "\n"
