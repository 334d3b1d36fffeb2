"""The text of an explanation: one line for an Event and the log, and parts for the explain document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gcushare.core.explain.verdicts import MAX_EXAMPLES, Asked, Explanation, FreeCard, NodeClass, Verdict
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted, some_names

_MAX_WRITTEN = 80
_MAX_CARD_NAMES = 20


def summarise(explanation: Explanation) -> str:
    """Summarise the explanation in one line for an Event and the log, the most important first."""
    parts = [describe_request(explanation.request)]
    if explanation.request.excludes_cards:
        parts[0] += " among the cards that the pod allows"
    if explanation.asked is not None:
        parts.append(describe_asked(explanation.asked))
    parts.append(describe_room(explanation.request, explanation.best, explanation.classes))
    counts: Counter[Verdict] = Counter()
    for each in explanation.classes:
        counts[each.verdict] += each.nodes
    parts += [f"{counted(count, 'node')}: {verdict.value}" for verdict, count in counts.items()]
    closed = sorted(card for each in explanation.classes if each.verdict is Verdict.CLOSED for card in each.closed)
    parts += [f"card {card.index} of {card.node} is {card.text}" for card in closed[:MAX_EXAMPLES]]
    parts.append(describe_help(explanation))
    return "; ".join(parts)


def describe_request(request: CardRequest) -> str:
    """Describe what a request needs: "needs 12 in one card"."""
    if request.whole:
        return f"needs {counted(request.cards, 'whole card')}"
    limit = f", of at least {request.limit} (its limit)" if request.limit else ""
    return f"needs {_amount(request.units, request)}{limit}"


def describe_asked(asked: Asked) -> str:
    """Describe which part of the nodes kube-scheduler asked about, and whether other nodes have room."""
    text = f"kube-scheduler asked about {asked.nodes} of {counted(asked.known, 'node')}"
    if not asked.fit_elsewhere:
        return text
    names = ", ".join(asked.examples)
    more = f", {names} and others," if asked.fit_elsewhere > len(asked.examples) else f" ({names})"
    verb = "has" if asked.fit_elsewhere == 1 else "have"
    sample = ", unless it took a sample of the nodes (percentageOfNodesToScore)" if asked.may_be_sample else ""
    return (
        f"{text}; {asked.fit_elsewhere} of the others{more} {verb} room, but a nodeSelector, an affinity, a taint or "
        f"another resource keeps the pod from there{sample}"
    )


def describe_cards(best: Sequence[FreeCard], *, whole: bool = False) -> str:
    """List the cards with most room: "best card free: 7 (card 2 of node-1), 4 (card 0 of node-3)"."""
    if whole:
        named = ", ".join(f"card {card.index} of {card.node}" for card in best)
        return f"whole cards free: {named}" if named else "no whole card is free"
    named = ", ".join(f"{card.units} (card {card.index} of {card.node})" for card in best)
    return f"best card free: {named}" if named else "no card is free"


def describe_room(request: CardRequest, best: Sequence[FreeCard], classes: Sequence[NodeClass]) -> str:
    """Describe what is free: the best cards and the sum. The sum is in units or, for whole cards, in cards."""
    free, total = sum(each.free for each in classes), sum(each.total for each in classes)
    if request.whole:
        free, total = sum(each.cards_free for each in classes), sum(each.cards_total for each in classes)
    return f"{describe_cards(best, whole=request.whole)}; total free {free} of {total}"


def describe_help(explanation: Explanation) -> str:
    """Describe what would make the request fit, or that nothing would."""
    if explanation.nodes_fit:
        return "it fits now"
    if not explanation.can_fit_where_asked:
        where = ", of the nodes asked about" if explanation.asked is not None else ""
        return f"{_describe_impossible(explanation)}{where}"
    request, largest = explanation.request, str(explanation.largest_now)
    if (
        request.whole
        and not explanation.largest_now
        and any(each.verdict is Verdict.ELSEWHERE for each in explanation.classes)
    ):
        return (
            "another plugin serves whole cards too; if one is free there says kube-scheduler's event FailedScheduling"
        )
    if request.whole:
        largest = counted(explanation.largest_now, "whole card")
    elif request.cards > 1:
        largest = _amount(explanation.largest_now, request)
    parts = [f"the largest request that fits now is {largest}"]
    if (remedy := explanation.remedy) is not None:
        ended = ", ".join(map(str, remedy.victims))
        parts.append(f"it would fit on {remedy.node} if these pods ended: {ended}")
        if not remedy.is_preemption:
            parts[-1] += " (kube-scheduler does not end them by itself, as not all have a lower priority)"
    elif explanation.weighed:
        parts.append("only pods of higher priority are in the way")
    if explanation.weighed < explanation.after_preemption:
        parts.append(f"pods to end were sought on {explanation.weighed} of {explanation.after_preemption} such nodes")
    return "; ".join(parts)


def _describe_impossible(explanation: Explanation) -> str:
    request, ever = explanation.request, explanation.largest_ever
    if not ever and any(each.verdict is Verdict.CLAIMS_ONLY for each in explanation.classes):
        return (
            "it can never fit: the nodes with cards give them as claims; label its namespace "
            "gcushare.io/claims=enabled and create the pod again"
        )
    if not ever and any(each.verdict is Verdict.DISTRUSTED for each in explanation.classes):
        return (
            "it cannot fit while another system, or another unit, has the memory resource of the nodes with cards: "
            "gcushare doctor names it"
        )
    if not ever and any(each.verdict in (Verdict.NO_WHOLE_CARDS, Verdict.NO_MEMORY) for each in explanation.classes):
        if request.whole:
            return (
                "no node serves whole cards here: another device plugin may, with its own scheduling; otherwise start "
                "the device plugin of nodes that should with --mode whole or --mode both"
            )
        return (
            "it can never fit: no node serves card memory; start the device plugin of nodes that should with "
            "--mode memory or --mode both"
        )
    if not ever and request.limit:
        limit = counted(request.limit, "unit")
        return f"it can never fit: no usable card that the pod allows has the {limit} of its limit"
    if not ever and request.excludes_cards:
        return f"it can never fit: no usable card is one that the pod allows{_describe_choice(explanation)}"
    if request.whole:
        return f"it can never fit: the most usable cards of one node that serves whole cards are {ever}"
    if request.cards > 1:
        return f"it can never fit: the most that {request.cards} usable cards of one node have each is {ever}"
    return f"it can never fit: the largest usable card has {ever}"


def _describe_choice(explanation: Explanation) -> str:
    """Name what the pod's author chose, and the indexes and models of the cards there are."""
    chosen, cards = explanation.request.selection, [card for node in explanation.kinds for card in node.present_cards]
    if chosen is None or not cards:
        return ""
    pairs = (("use-cards", chosen.use), ("avoid-cards", chosen.avoid))
    written = " and ".join(f"gcushare.io/{key}={','.join(words)[:_MAX_WRITTEN]!r}" for key, words in pairs if words)
    names = [*map(str, sorted({card.index for card in cards})), *sorted({card.model for card in cards} - {""})]
    return f" ({written}, where cards are named {some_names(names, _MAX_CARD_NAMES)}, or by uuid)"


def _amount(units: int, request: CardRequest) -> str:
    return f"{units} in one card" if request.cards == 1 else f"{units} in each of {counted(request.cards, 'card')}"


def describe_shortage(node: NodeState, request: CardRequest) -> str:
    """Say with numbers why a request does not fit one node."""
    if node.serves_claims:
        return f"node {node.name} gives its cards as claims, which the scheduler extender does not place"
    if not node.serves(request):
        wanted, served = ("whole cards", "memory") if request.whole else ("card memory", "whole cards")
        return f"node {node.name} serves no {wanted}: its device plugin hands out {served} only (--mode)"
    wanted = describe_request(request)
    if request.whole:
        allowed = sum(state.can_hold(request) for state in node.cards.values())
        chosen = ", of those that the pod allows" if request.excludes_cards else ""
        return f"{wanted} of node {node.name}{chosen}; {allowed} of {len(node.cards)} are free"
    able = [(s.grantable, -s.index) for s in node.cards.values() if s.card is None or request.allows(s.card)]
    units, index = max(able, default=(0, 0))
    best = describe_cards([FreeCard(units, node.name, -index)]) if able else f"{node.name} has none"
    free = sum(state.grantable for state in node.cards.values())
    chosen = " among the cards that the pod allows" if request.excludes_cards else ""
    kept = sum(node.find_unplaced())
    more = f"; {kept} are kept free on each card for bound pods whose card is not known yet" if kept else ""
    return f"{wanted}{chosen}; {best}; total free {free} of {node.total}{more}"
