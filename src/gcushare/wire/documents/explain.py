"""The explain document: why a pod has no card, or which it has, as JSON for programs and as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.explain.explanation import MAX_EXAMPLES, Explanation, NodeClass
from gcushare.core.explain.reason_text import describe_help, describe_request, describe_room, describe_scope, show_units
from gcushare.core.explain.verdicts import Verdict
from gcushare.core.explain.ways_out import Change, WayOut, find_ways_out
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted, some_names
from gcushare.wire.annotations import AVOID_CARDS, CARDS, CARDS_LINKED, MEMORY_LIMIT, USE_CARDS
from gcushare.wire.documents import Document
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int


class FreeCardDocument(Document, frozen=True):
    """What a new pod could get of one card."""

    node: str
    card: Int
    free: Int


class ClassDocument(Document, frozen=True):
    """Nodes with the same cards and the same reason. ``obstacle``: which of the pod's rules keeps it off them."""

    reason: str
    text: str
    nodes: Int
    examples: tuple[str, ...]
    cards: tuple[Int, ...]
    best_cards: tuple[FreeCardDocument, ...]
    free: Int
    total: Int
    obstacle: str = ""


class RemedyDocument(Document, frozen=True):
    """Pods whose end would make the pod fit, never pods of a higher priority.

    ``preemption``: all of them have a lower priority, so kube-scheduler may end them; it ends none for a claim.
    """

    node: str
    pods: tuple[str, ...]
    preemption: bool = True


class AskedDocument(Document, frozen=True):
    """How many nodes kube-scheduler asked about: ``nodes`` of the ``known`` ones on which the pod may run.

    ``fit_elsewhere`` of the others have room, but something other than cards keeps the pod off, or kube-scheduler took
    a sample. ``examples`` are such nodes with room.
    """

    nodes: Int
    known: Int
    fit_elsewhere: Int
    examples: tuple[str, ...] = ()


class RulesDocument(Document, frozen=True):
    """On how many nodes the pod may run: ``left`` of ``known``. ``fit_elsewhere`` of the others have room.

    nodeSelector, node affinity, taints and cordons keep it off those; ``examples`` are such nodes with room.
    """

    left: Int
    known: Int
    fit_elsewhere: Int
    examples: tuple[str, ...] = ()


class RequestDocument(Document, frozen=True):
    """What the pod asks for: ``units`` on each of ``cards`` cards, or whole cards, then with their policy.

    ``limit``: the units that it may use of each card while no other pod needs them; 0 if only those it requests.
    ``linked``: only cards that are linked with each other. ``apart``: the label, as app=web, of the pods of its
    namespace with which it shares no card.
    """

    units: Int
    cards: Int
    whole: bool
    node_policy: str
    card_policy: str
    use_cards: tuple[str, ...] = ()
    avoid_cards: tuple[str, ...] = ()
    whole_card_policy: str = ""
    limit: Int = 0
    linked: bool = False
    apart: str = ""


class ChoiceDocument(Document, frozen=True):
    """Why a pod was bound to its node: the policies, the node's score, and how many nodes with room scored higher.

    kube-scheduler chooses among the ``named_nodes`` that filter names, so it does not always take the node that scores
    highest; ``set_aside`` are the kinds of what the pod prefers, which was weighed among these alone.
    """

    node_policy: str
    card_policy: str
    score_percent: Int
    better_nodes: Int
    fitting_nodes: Int
    named_nodes: Int = 0
    set_aside: tuple[str, ...] = ()


class WayDocument(Document, frozen=True):
    """A change that would let a pod fit which never can as it is: the request after it. Its sentence is in ``waysOut``.

    ``change``: ``amount``, ``cards``, ``limit``, ``selection``, ``rules`` (``nodes`` could hold it, off which
    ``obstacle`` keeps it) or ``node`` (one more). ``units`` and ``limit`` are those in each of ``cards``.
    """

    change: str
    units: Int
    cards: Int = 1
    whole: bool = False
    limit: Int = 0
    nodes: tuple[str, ...] = ()
    obstacle: str = ""


class ExplainDocument(Document, frozen=True):
    """Everything about one pod. ``state``: ``bound``, ``fits``, ``waits``, ``gated`` (scheduling gates), ``refused``.

    ``largest_that_fits_now`` and ``largest_that_ever_fits`` are units in each of the request's cards, or whole cards
    of one node; they and the remedy are of the nodes off which nothing but cards keeps the pod. Ending pods would help
    on ``nodes_hopeful``; the search for a remedy covered ``nodes_weighed`` of them. ``choice`` says why a pod that was
    bound lately has its node. ``limit``: the units that a bound pod may use while no other pod needs them. ``uid`` is
    empty for a caller who is not authenticated: with the uid of a waiting pod one could forge a call of kube-scheduler.
    ``ways_out`` says, for a pod that can never fit, what would help; each was tried; ``ways`` are the same for programs
    that write their own sentences. ``can_ever_fit`` of a pod that waits is None if the cards of nodes that
    kube-scheduler asked about are not known yet.
    """

    namespace: str
    name: str
    uid: str
    state: str
    summary: str
    node: str = ""
    cards: tuple[Int, ...] = ()
    units: Int = 0
    request: RequestDocument | None = None
    can_ever_fit: bool | None = None
    largest_that_fits_now: Int | None = None
    largest_that_ever_fits: Int | None = None
    remedy: RemedyDocument | None = None
    classes: tuple[ClassDocument, ...] = ()
    unreadable_nodes: dict[str, str] = msgspec.field(default_factory=dict)
    rules: RulesDocument | None = None
    asked: AskedDocument | None = None
    nodes_weighed: Int = 0
    nodes_hopeful: Int = 0
    over_use: str = ""
    choice: ChoiceDocument | None = None
    limit: Int = 0
    ways_out: tuple[str, ...] = ()
    ways: tuple[WayDocument, ...] = ()
    gates: tuple[str, ...] = ()


_MAX_UNREADABLE = 20

EXPLANATION = BoundedJsonDecoder(ExplainDocument, "the extender's explanation", limit_bytes=OBJECT_BYTES)
_encoder = msgspec.json.Encoder()


def explain_bound(
    assignment: Assignment,
    units: int,
    problem: str = "",
    over_use: str = "",
    choice: ChoiceDocument | None = None,
    shared_with: Sequence[PodRef] = (),
) -> ExplainDocument:
    """Describe a pod that holds ``units`` on its node; ``over_use`` says in text what it uses beyond its grant.

    ``shared_with``: other pods of its claims; all together hold that much.
    """
    cards = tuple(grant.index for grant in assignment.grants)
    words = f"card{'s' if len(cards) > 1 else ''} {', '.join(map(str, cards))}" if cards else "no card recorded"
    is_whole = any(grant.whole for grant in assignment.grants)
    amount = f"whole ({counted(units, 'unit')})" if is_whole else counted(units, "unit")
    if assignment.limit:
        amount += f" (limit {assignment.limit}, while no other pod needs them)"
    if shared_with:
        amount += f", shared with {', '.join(map(str, shared_with))}"
    summary = problem or f"bound to {assignment.node}: {words}, {amount}"
    pod = assignment.pod
    return ExplainDocument(
        pod.namespace,
        pod.name,
        pod.uid,
        "bound",
        f"{summary}; over its grant: {over_use}" if over_use else summary,
        assignment.node,
        cards,
        units,
        over_use=over_use,
        choice=choice,
        limit=assignment.limit,
    )


def explain_refused(pod: PodRef, problem: str) -> ExplainDocument:
    """Describe a pod whose request no node can grant."""
    return ExplainDocument(pod.namespace, pod.name, pod.uid, "refused", problem, can_ever_fit=False)


def request_document(cards: CardRequest, node_policy: str, card_policy: str, whole_card_policy: str) -> RequestDocument:
    """Describe a request and the policies that apply to it."""
    chosen = cards.selection
    return RequestDocument(
        cards.units,
        cards.cards,
        cards.whole,
        node_policy,
        card_policy,
        chosen.use if chosen else (),
        chosen.avoid if chosen else (),
        whole_card_policy if cards.whole else "",
        cards.limit,
        cards.linked,
        str(cards.apart or ""),
    )


def explain_waiting(
    pod: PodRef,
    request: RequestDocument,
    found: Explanation,
    *,
    divisor: int,
    gates: Sequence[str] = (),
    unreadable: Mapping[str, str] | None = None,
) -> ExplainDocument:
    """Describe a pod that has no node yet.

    ``divisor``: see ``find_ways_out``. ``gates``: the names of its scheduling gates. ``unreadable``: nodes whose cards
    cannot be read, and why.
    """
    remedy, excluded = found.remedy, found.of(Verdict.EXCLUDED, Verdict.AWAY)
    known = sum(each.nodes for each in found.classes)
    left = known - sum(each.nodes for each in excluded)
    said = [f"kube-scheduler leaves it alone until {_gates_text(gates)}"] if gates else []
    ways = find_ways_out(found, divisor)
    return ExplainDocument(
        pod.namespace,
        pod.name,
        pod.uid,
        "gated" if gates else "fits" if found.nodes_fit else "waits",
        "; ".join([*said, describe_request(found.request, found.unit), *describe_scope(found), describe_help(found)]),
        request=request,
        can_ever_fit=True if found.can_ever_fit else None if found.awaited else False,
        largest_that_fits_now=found.largest_now,
        largest_that_ever_fits=found.largest_ever,
        remedy=None
        if remedy is None
        else RemedyDocument(remedy.node, tuple(str(victim) for victim in remedy.victims), remedy.is_preemption),
        classes=tuple(_class_document(each, found) for each in found.classes),
        unreadable_nodes=dict(sorted((unreadable or {}).items())[:_MAX_UNREADABLE]),
        rules=RulesDocument(left, known, *_with_room(excluded)) if excluded else None,
        asked=None if found.asked is None else AskedDocument(found.asked, left, *_with_room(found.of(Verdict.UNASKED))),
        nodes_weighed=found.weighed,
        nodes_hopeful=found.after_preemption,
        ways_out=tuple(_way_text(way, found) for way in ways),
        ways=tuple(map(_way_document, ways)),
        gates=tuple(gates),
    )


def _gates_text(gates: Sequence[str]) -> str:
    names = some_names(list(map(repr, gates)))
    return f"its scheduling gate {names} is removed" if len(gates) == 1 else f"its scheduling gates {names} are removed"


def _class_document(each: NodeClass, found: Explanation) -> ClassDocument:
    return ClassDocument(
        reason=each.verdict.value,
        text=describe_room(found, [each]),
        nodes=each.nodes,
        examples=tuple(each.examples),
        cards=each.cards,
        best_cards=tuple(FreeCardDocument(card.node, card.index, card.units) for card in each.best),
        free=each.free,
        total=each.total,
        obstacle=each.obstacle,
    )


def _with_room(classes: Iterable[NodeClass]) -> tuple[int, tuple[str, ...]]:
    names = sorted(name for each in classes for name in each.with_room)
    return len(names), tuple(names[:MAX_EXAMPLES])


def explain_claiming(
    pod: PodRef, cards: CardRequest, found: Explanation, *, divisor: int, gates: Sequence[str]
) -> ExplainDocument:
    """Describe a pod that waits for a claim of memory or whole cards; ``found`` is of the nodes that serve claims."""
    request = RequestDocument(cards.units, cards.cards, whole=cards.whole, node_policy="", card_policy="")
    document = explain_waiting(pod, request, found, divisor=divisor, gates=gates)
    summary = f"by a claim, {document.summary}"
    if not found.classes:
        help_ = "no node with cards serves claims; label one gcushare.io/serve=claims"
        summary = f"{describe_request(found.request)} by a claim; {help_}"
    return msgspec.structs.replace(document, summary=summary)


def without_uid(document: ExplainDocument) -> ExplainDocument:
    """Remove the uid, for a caller who is not authenticated."""
    return msgspec.structs.replace(document, uid="")


def encode_explanation(document: ExplainDocument) -> bytes:
    return _encoder.encode(document) + b"\n"


def _way_document(way: WayOut) -> WayDocument:
    request = way.request
    return WayDocument(
        way.change.name.lower(), request.units, request.cards, request.whole, request.limit, way.nodes, way.obstacle
    )


def _way_text(way: WayOut, found: Explanation) -> str:
    request, asked, unit = way.request, found.request, found.unit
    cards = counted(request.cards, "card")
    match way.change:
        case Change.AMOUNT if request.whole:
            return f"ask for at most {counted(request.cards, 'whole card')}"
        case Change.AMOUNT:
            return f"ask for at most {request.units}{f' in each of {cards}' if request.cards > 1 else ''}"
        case Change.CARDS:
            total = request.units * request.cards
            more = f" and ask for {total}" if total != asked.units * asked.cards else ""
            where = f"{show_units(request.units, unit)} in each of {cards} of one node"
            return f'annotate the pod with {CARDS}: "{request.cards}"{more}: {where}'
        case Change.LIMIT:
            return f"lower {MEMORY_LIMIT} to at most {request.limit * request.cards}"
        case Change.SELECTION:
            return f"let it have other cards ({USE_CARDS}, {AVOID_CARDS})"
        case Change.LINKS:
            return f"remove {CARDS_LINKED}"
        case Change.RULES:
            return f"let it run on {' or '.join(way.nodes)}, off which it is kept by {way.obstacle}"
        case Change.NODE:
            chosen = request.selection is not None and (request.selection.use or request.selection.avoid)
            allowed = " that the pod allows" if chosen and request.excludes_cards else ""
            where = " on which it may run" if found.of(Verdict.EXCLUDED) else ""
            if request.whole:
                return f"add a node{where} with {cards}{allowed} that its plugin serves whole"
            number = "a card" if request.cards == 1 else cards
            least = show_units(max(request.units, request.limit), unit)
            linked = ", linked with each other" if request.linked else ""
            return f"add a node{where} with {number} of {least} or more{allowed}{linked}"
