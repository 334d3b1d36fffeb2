"""How many more nodes a cluster's waiting pods need: ``kubectl inspect ... nodes-needed``.

Reads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from gcushare.cli.kubectl.flags import NodesNeededSettings
from gcushare.cli.kubectl.session import Session
from gcushare.cluster.reader import UNFINISHED, Reader
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import NotFoundError
from gcushare.core.nodes import NodeState
from gcushare.core.other_resources import Amounts
from gcushare.core.packing import nodes_needed as packing
from gcushare.core.quantities import Int
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.wire.dra.claims import claimed_request
from gcushare.wire.objects import NODE, POD, Node, Pod
from gcushare.wire.other_resources import node_amounts, pod_amounts

_NONE = Amounts()


class ClassNeedDocument(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What nodes of one class would do for the waiting pods: ``nodes`` more hold ``pods`` that no present node holds.

    ``node_class``: see ``CLASS_FORM``. ``too_large``: pods that fit on no such node, even if it is empty, or may not
    run there. ``present``: nodes of the class that exist. ``wanted``: how many a scaler should keep: ``nodes`` more
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


async def nodes_needed(session: Session, settings: NodesNeededSettings) -> int:
    """Print the count; the work of ``kubectl inspect ... nodes-needed``."""
    added = Counter({packing.PodKind(CardRequest(units), _NONE): count for count, units in settings.add})
    snapshot = ClusterSnapshot(session.vendor)
    document = await read_pending(session.api, snapshot, settings.like or "", settings.pods or "", added)
    if not session.print_document(lambda: document):
        session.screen.print_text(render_nodes_needed(document, added.total()))
    session.require_cards(snapshot, None, may_be_empty=True)
    return session.warn(snapshot.problems)


async def read_pending(
    client: KubeClient, snapshot: ClusterSnapshot, like: str, pods: str, added: Counter[packing.PodKind]
) -> NodesNeededDocument:
    """Read the cluster into an empty snapshot and count as ``count_pending``; its problems are what cannot be read.

    Raises:
        RemoteContractError, NotFoundError: as ``count_pending``.
        the errors of ``gcushare.kube.errors``.
    """
    reader = Reader(client, problems=snapshot.problems)
    nodes = await reader.list_objects(NODES, NODE.read)
    # Pods without cards count too: they take CPU and memory.
    unfinished = await reader.list_objects(PODS, POD.read, selector=Selector(fields=UNFINISHED))
    document = count_pending(snapshot, nodes, unfinished, like, pods, added)
    snapshot.problems += snapshot.node_problems()
    return document


def count_pending(
    snapshot: ClusterSnapshot,
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    like: str,
    only: str,
    added: Counter[packing.PodKind],
) -> NodesNeededDocument:
    """Count for ``like`` a node or class (empty: every class), and ``only`` the pods of a namespace, or one pod.

    ``added``: pods that do not exist, as if they waited too.

    Pods with claims are not counted: kube-scheduler places them alone, on nodes that serve claims.

    Takes an empty snapshot. Present nodes that take no pods hold no further ones. Pods that are being deleted, or whose
    request is refused, need no node.

    Raises:
        RemoteContractError: ``like`` is no node and no class.
        NotFoundError: ``only`` is no waiting pod.
    """
    nodes, pods = list(nodes), list(pods)
    snapshot.count(nodes, pods)
    spare = _SpareAmounts(nodes, pods)
    kinds = _waiting_kinds(snapshot, pods, only)
    room, states = packing.NodeCount(kinds + added), snapshot.ledger.nodes
    # Nodes with pods first: of the others as few as possible are kept.
    for name in sorted(snapshot.node_facts.keys() & states, key=lambda name: (not states[name].assignments, name)):
        if snapshot.node_facts[name].takes_pods:
            room.use_present(states[name], spare.left(name, spare.taken), snapshot.places[name])
    classes, found = packing.NodeClasses(), []
    for state in states.values():
        classes.add(state)
    for name, alike in classes.choose(like).items():
        # A class may be several pools; a node that was named stands for its own.
        models = alike[:1] if like in snapshot.places else alike
        need = room.count_new(
            packing.empty_like(alike[0]) if alike else packing.parse_class(name),
            spare.left(alike[0].name, spare.stays) if alike else packing.ANY_AMOUNTS,
            [packing.place_like(snapshot.places[each.name]) for each in models],
        )
        found.append(describe_class(name, need, alike, room.filled))
    return NodesNeededDocument(1, room.pods, room.fit_now, room.left_out, tuple(found))


class _SpareAmounts:
    """The CPU and memory that pods leave of nodes."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self._offered = {node.metadata.name: node_amounts(node) for node in nodes}
        self.taken, self.stays = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        """What all pods use; and those of DaemonSets and static ones, which a new node like this one has too."""
        for pod in pods:
            for part, amount in enumerate(pod_amounts(pod)):
                self.taken[pod.spec.node_name, part] += amount
                if any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owner_references):
                    self.stays[pod.spec.node_name, part] += amount

    def left(self, node: str, used: Mapping[tuple[str, int], int]) -> Amounts:
        """What this use leaves of a node."""
        offered = self._offered.get(node, _NONE)
        return Amounts(*(max(0, amount - used[node, part]) for part, amount in enumerate(offered)))


def _waiting_kinds(snapshot: ClusterSnapshot, pods: Iterable[Pod], only: str) -> Counter[packing.PodKind]:
    """Count the pods that a further node could help, of ``only``, by kind.

    Raises:
        NotFoundError: ``only`` is no such pod.
    """
    ungated = {
        pod.metadata.uid: pod
        for pod in pods
        if not pod.spec.scheduling_gates and claimed_request(pod, snapshot.vendor) is None
    }
    kinds = Counter(
        packing.PodKind(facts.request, pod_amounts(asking), asking.spec.node_rules)
        for facts in snapshot.waiting()
        if facts.request is not None and not facts.nominated and (asking := ungated.get(facts.ref.uid)) is not None
        if not facts.problem
        if only in ("", facts.ref.namespace, str(facts.ref))
    )
    if "/" in only and not kinds:
        raise NotFoundError(f"no pod {only!r} waits for {snapshot.vendor.device_word} cards that could be given")
    return kinds


def describe_class(
    name: str, need: packing.NodesNeeded, present: Sequence[NodeState], filled: Collection[str]
) -> ClassNeedDocument:
    """Describe what was counted for a class that has these nodes; pods that wait fit on those ``filled``."""
    used = sum(bool(node.assignments) or node.name in filled for node in present)
    wanted = len(present) + need.nodes if need.nodes else used
    return ClassNeedDocument(name, need.nodes, need.pods, need.too_large, len(present), wanted)


def render_nodes_needed(document: NodesNeededDocument, added: int) -> str:
    """Describe it for people, one line per class; ``added`` of the pods do not exist."""
    waits = f"{counted(document.waiting, 'pod', 'wait')} for cards" + (f", with {added} of --add" if added else "")
    lines = [f"{waits}; present nodes have room for {document.fit_now}"]
    for each in document.classes:
        large = (
            f"; {counted(each.too_large, 'pod', 'do')} not fit on an empty one or may not run there"
            if each.too_large
            else ""
        )
        lines.append(
            f"{each.node_class}: {counted(each.nodes, 'more node', 'hold')} {counted(each.pods, 'pod')}{large}"
        )
    if document.left_out:
        lines.append(f"{counted(document.left_out, 'pod', 'were')} not counted: there are too many kinds of pods")
    return "\n".join(lines) + "\n"
