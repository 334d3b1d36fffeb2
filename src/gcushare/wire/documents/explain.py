"""The explain document: why a pod has no card, or which it has, as JSON for programs and as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.explain.reason_text import describe_asked, describe_help, describe_request, describe_room
from gcushare.core.explain.verdicts import Explanation
from gcushare.core.explain.ways_out import Change, WayOut, find_ways_out
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted
from gcushare.wire.annotations import AVOID_CARDS, CARDS, MEMORY_LIMIT, USE_CARDS
from gcushare.wire.documents import Document
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int


class FreeCardDocument(Document, frozen=True):
    """What a new pod could get of one card."""

    node: str
    card: Int
    free: Int


class ClassDocument(Document, frozen=True):
    """Nodes with the same cards and the same reason."""

    reason: str
    text: str
    nodes: Int
    examples: tuple[str, ...]
    cards: tuple[Int, ...]
    best_cards: tuple[FreeCardDocument, ...]
    free: Int
    total: Int


class RemedyDocument(Document, frozen=True):
    """Pods whose end would make the pod fit, never pods of a higher priority.

    ``preemption``: all of them have a lower priority, so kube-scheduler may end them.
    """

    node: str
    pods: tuple[str, ...]
    preemption: bool = True


class AskedDocument(Document, frozen=True):
    """How many nodes kube-scheduler asked about: ``nodes`` of ``known``. ``fit_elsewhere`` of the others have room.

    A nodeSelector, an affinity, a taint or another resource keeps the pod from those, or kube-scheduler took a sample.
    ``examples`` are such nodes with room.
    """

    nodes: Int
    known: Int
    fit_elsewhere: Int
    examples: tuple[str, ...] = ()


class RequestDocument(Document, frozen=True):
    """What the pod asks for: ``units`` on each of ``cards`` cards, or whole cards, then with their policy.

    ``limit``: the units that it may use of each card while no other pod needs them; 0 if only those it requests.
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


class ChoiceDocument(Document, frozen=True):
    """Why a pod was bound to its node: the policies, the node's score, and how many nodes with room scored higher.

    kube-scheduler chooses among the nodes that filter names, so it does not always take the node that scores highest.
    """

    node_policy: str
    card_policy: str
    score_percent: Int
    better_nodes: Int
    fitting_nodes: Int


class ExplainDocument(Document, frozen=True):
    """Everything about one pod. ``state``: ``bound``, ``fits``, ``waits`` or ``refused``.

    ``largest_that_fits_now`` and ``largest_that_ever_fits`` are units in each of the request's cards, or whole cards
    of one node. With ``asked``, these, the remedy and the classes cover the nodes asked about. Ending pods would help
    on ``nodes_hopeful``; the search for a remedy covered ``nodes_weighed`` of them. ``choice`` says why a pod that was
    bound lately has its node. ``limit``: the units that a bound pod may use while no other pod needs them. ``uid`` is
    empty for a caller who is not authenticated: with the uid of a waiting pod one could forge a call of kube-scheduler.
    ``ways_out`` says, for a pod that can never fit, what would help; each was tried.
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
    asked: AskedDocument | None = None
    nodes_weighed: Int = 0
    nodes_hopeful: Int = 0
    over_use: str = ""
    choice: ChoiceDocument | None = None
    limit: Int = 0
    ways_out: tuple[str, ...] = ()


EXPLANATION = BoundedJsonDecoder(ExplainDocument, "the extender's explanation", limit_bytes=OBJECT_BYTES)
_encoder = msgspec.json.Encoder()


def explain_bound(
    assignment: Assignment, units: int, problem: str = "", over_use: str = "", choice: ChoiceDocument | None = None
) -> ExplainDocument:
    """Describe a pod that holds ``units`` on its node; ``over_use`` says in text what it uses beyond its grant."""
    cards = tuple(grant.index for grant in assignment.grants)
    words = f"card{'s' if len(cards) > 1 else ''} {', '.join(map(str, cards))}" if cards else "no card recorded"
    is_whole = any(grant.whole for grant in assignment.grants)
    amount = f"whole ({counted(units, 'unit')})" if is_whole else counted(units, "unit")
    if assignment.limit:
        amount += f" (limit {assignment.limit}, while no other pod needs them)"
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


def explain_waiting(
    pod: PodRef, request: RequestDocument, found: Explanation, unreadable: dict[str, str], divisor: int
) -> ExplainDocument:
    """Describe a pod that has no node yet; for ``divisor`` see ``find_ways_out``."""
    remedy, asked = found.remedy, found.asked
    scope = [] if asked is None else [describe_asked(asked)]
    return ExplainDocument(
        pod.namespace,
        pod.name,
        pod.uid,
        "fits" if found.nodes_fit else "waits",
        "; ".join([describe_request(found.request), *scope, describe_help(found)]),
        request=request,
        can_ever_fit=found.can_ever_fit,
        largest_that_fits_now=found.largest_now,
        largest_that_ever_fits=found.largest_ever,
        remedy=None
        if remedy is None
        else RemedyDocument(remedy.node, tuple(str(victim) for victim in remedy.victims), remedy.is_preemption),
        classes=tuple(
            ClassDocument(
                reason=each.verdict.value,
                text=describe_room(found.request, each.best, [each]),
                nodes=each.nodes,
                examples=tuple(each.examples),
                cards=each.cards,
                best_cards=tuple(FreeCardDocument(card.node, card.index, card.units) for card in each.best),
                free=each.free,
                total=each.total,
            )
            for each in found.classes
        ),
        unreadable_nodes=unreadable,
        asked=None if asked is None else AskedDocument(asked.nodes, asked.known, asked.fit_elsewhere, asked.examples),
        nodes_weighed=found.weighed,
        nodes_hopeful=found.after_preemption,
        ways_out=tuple(_way_text(way, found.request) for way in find_ways_out(found, divisor)),
    )


def explain_claiming(pod: PodRef, cards: CardRequest, found: Explanation, divisor: int) -> ExplainDocument:
    """Describe a pod that waits for a claim of memory or whole cards; ``found`` is of the nodes that serve claims."""
    request = RequestDocument(cards.units, cards.cards, whole=cards.whole, node_policy="", card_policy="")
    document = explain_waiting(pod, request, found, {}, divisor)
    if not found.classes:
        help_ = "no node with cards serves claims; label one gcushare.io/serve=claims"
        summary = f"{describe_request(found.request)} by a claim; {help_}"
        return msgspec.structs.replace(document, summary=summary)
    return msgspec.structs.replace(document, summary=f"by a claim, {document.summary}")


def without_uid(document: ExplainDocument) -> ExplainDocument:
    """Remove the uid, for a caller who is not authenticated."""
    return msgspec.structs.replace(document, uid="")


def name_pod(document: ExplainDocument) -> str:
    """Name the pod for people, with its uid if the document has it."""
    uid = f" ({document.uid})" if document.uid else ""
    return f"pod {document.namespace}/{document.name}{uid}"


def encode_explanation(document: ExplainDocument) -> bytes:
    return _encoder.encode(document) + b"\n"


def describe_choice(choice: ChoiceDocument) -> str:
    """Say why a pod has its node."""
    better = "none was" if not choice.better_nodes else f"{choice.better_nodes} were"
    return (
        f"node policy {choice.node_policy} scored it {choice.score_percent} of 100, and {better} better of "
        f"{counted(choice.fitting_nodes, 'node')} with room; card policy {choice.card_policy}"
    )


def render_explanation(document: ExplainDocument) -> str:
    """Write an explanation as text for people."""
    lines = [f"{name_pod(document)}: {document.state}", f"  {document.summary}"]
    if ways := describe_ways_out(document):
        lines.append(f"  {ways}")
    if document.choice is not None:
        lines.append(f"  {describe_choice(document.choice)}")
    if document.request is not None:
        request = document.request
        whole = f", whole-card policy {request.whole_card_policy}" if request.whole_card_policy else ""
        if request.node_policy:  # A claim has none: kube-scheduler places it.
            lines.append(f"  node policy {request.node_policy}, card policy {request.card_policy}{whole}")
    for each in document.classes:
        more = f" and {each.nodes - len(each.examples)} more" if each.nodes > len(each.examples) else ""
        cards = f"cards of {_sizes(each.cards)}" if each.cards else "no cards"
        lines += [
            "",
            f"{counted(each.nodes, 'node')} with {cards}: {', '.join(each.examples)}{more}",
            f"  {each.reason}: {each.text}",
        ]
    for name, problem in sorted(document.unreadable_nodes.items()):
        lines += ["", f"{name} cannot be read: {problem}"]
    return "\n".join(lines) + "\n"


def _sizes(cards: Sequence[int]) -> str:
    """Write the cards' sizes, equal ones counted: ``2 x 8, 6 x 16``."""
    counts = Counter(cards)
    return ", ".join(f"{count} x {size}" if count > 1 else str(size) for size, count in counts.items())


def describe_ways_out(document: ExplainDocument) -> str:
    """Say in one sentence what would make the pod fit; "" for a pod that can fit as it is."""
    return f"what would help: {', or '.join(document.ways_out)}" if document.ways_out else ""


def _way_text(way: WayOut, asked: CardRequest) -> str:
    request = way.request
    cards = counted(request.cards, "card")
    match way.change:
        case Change.AMOUNT if request.whole:
            return f"ask for at most {counted(request.cards, 'whole card')}"
        case Change.AMOUNT:
            return f"ask for at most {request.units}{f' in each of {cards}' if request.cards > 1 else ''}"
        case Change.CARDS:
            total = request.units * request.cards
            more = f" and ask for {total}" if total != asked.units * asked.cards else ""
            where = f"{request.units} in each of {cards} of one node"
            return f'annotate the pod with {CARDS}: "{request.cards}"{more}: {where}'
        case Change.LIMIT:
            return f"lower {MEMORY_LIMIT} to at most {request.limit * request.cards}"
        case Change.SELECTION:
            return f"let it have other cards ({USE_CARDS}, {AVOID_CARDS})"
        case Change.NODE:
            chosen = request.selection is not None and (request.selection.use or request.selection.avoid)
            allowed = " that the pod allows" if chosen and request.excludes_cards else ""
            if request.whole:
                return f"add a node with {cards}{allowed} that its plugin serves whole"
            number = "a card" if request.cards == 1 else cards
            return f"add a node with {number} of {max(request.units, request.limit)} or more{allowed}"
