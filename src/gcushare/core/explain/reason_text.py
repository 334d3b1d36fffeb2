"""The text of an explanation: one line for an Event and the log, and parts for the explain document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gcushare.core.explain.explanation import (
    LEAST_SAMPLE,
    MAX_BEST_CARDS,
    MAX_EXAMPLES,
    Explanation,
    FreeCard,
    NodeClass,
    best_first,
)
from gcushare.core.explain.verdicts import UNSERVED, Verdict
from gcushare.core.nodes import NodeState
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted, some_names

_NOT_SERVING = UNSERVED | {Verdict.ELSEWHERE, Verdict.AWAITED}
_MAX_WRITTEN = 80
_MAX_CARD_NAMES = 20


def summarise(explanation: Explanation) -> str:
    """Summarise the explanation in one line for an Event and the log, the most important first."""
    parts = [describe_request(explanation.request, explanation.unit)]
    if explanation.request.excludes_cards:
        parts[0] += " among the cards that the pod allows"
    parts += describe_scope(explanation)
    parts.append(describe_room(explanation, explanation.tried))
    counts: Counter[Verdict] = Counter()
    for each in explanation.tried:
        counts[each.verdict] += each.nodes
    parts += [f"{counted(count, 'node')}: {verdict.value}" for verdict, count in counts.items()]
    closed = sorted(card for each in explanation.of(Verdict.CLOSED) for card in each.closed)
    parts += [f"card {card.index} of {card.node} is {card.text}" for card in closed[:MAX_EXAMPLES]]
    parts.append(describe_help(explanation))
    return "; ".join(filter(None, parts))


def show_units(units: int, unit: str) -> str:
    """Write an amount with its unit: "12 GB", "15 x 0.1GB"; the plain number if the unit is not known."""
    sign = " x " if unit[:1].isdigit() else " " if unit else ""
    return f"{units}{sign}{unit}"


def describe_request(request: CardRequest, unit: str = "") -> str:
    """Describe what a request needs: "needs 12 GB in one card"."""
    if request.whole:
        return f"needs {counted(request.cards, 'whole card')}"
    rules = f", of at least {show_units(request.limit, unit)} (its limit)" if request.limit else ""
    rules += ", linked with each other" if request.linked else ""
    rules += f", that holds no other pod of {request.apart} (its gcushare.io/apart)" if request.apart else ""
    return f"needs {_amount(request.units, request, unit)}{rules}"


def describe_scope(explanation: Explanation) -> list[str]:
    """Describe on which nodes a request was judged, and whether others have room; nothing if on all of them."""
    known = sum(each.nodes for each in explanation.classes)
    obstacles: Counter[str] = Counter()
    kept_off_nodes = explanation.of(Verdict.EXCLUDED, Verdict.AWAY)
    for each in kept_off_nodes:
        obstacles[each.obstacle] += each.nodes
    left, asked = known - obstacles.total(), explanation.asked
    parts = []
    if obstacles:
        common = [f"{count} by {text}" for text, count in obstacles.most_common(MAX_EXAMPLES)]
        more = len(obstacles) - len(common)
        kept_off = ", ".join([*common, *([f"others by {counted(more, 'more rule')}"] if more else [])])
        room = _describe_room_on(kept_off_nodes, "the others" if left else "them")
        parts.append(f"it may run on {left or 'none'} of {counted(known, 'node')} (kept off {kept_off}){room}")
    if asked is not None:
        room = _describe_room_on(explanation.of(Verdict.UNASKED), "the others")
        if room:
            room += ", but something else keeps the pod off: another resource, a volume, a port, affinity to pods"
            room += ", or kube-scheduler took a sample (percentageOfNodesToScore)" if asked >= LEAST_SAMPLE else ""
        parts.append(f"kube-scheduler asked about {asked} of {'them' if obstacles else counted(left, 'node')}{room}")
    return parts


def _describe_room_on(classes: Sequence[NodeClass], word: str) -> str:
    names = sorted(name for each in classes for name in each.with_room)
    if not names:
        return ""
    few = ", ".join(names[:MAX_EXAMPLES])
    named = f", {few} and others," if len(names) > MAX_EXAMPLES else f" ({few})"
    return f"; {len(names)} of {word}{named} {'has' if len(names) == 1 else 'have'} room"


def describe_cards(best: Sequence[FreeCard], unit: str, *, whole: bool = False) -> str:
    """List the cards with most room: "best card free: 7 GB (card 2 of node-1), 4 GB (card 0 of node-3)"."""
    if whole:
        named = ", ".join(f"card {card.index} of {card.node}" for card in best)
        return f"whole cards free: {named}" if named else "no whole card is free"
    named = ", ".join(f"{show_units(card.units, unit)} (card {card.index} of {card.node})" for card in best)
    return f"best card free: {named}" if named else "no card is free"


def describe_room(explanation: Explanation, classes: Sequence[NodeClass]) -> str:
    """Describe what is free: the best cards and the sum, in units or, for whole cards, in cards.

    Nodes that do not serve such requests have nothing for it, whatever is free there: "" if there are no others.
    """
    request, serving = explanation.request, [each for each in classes if each.verdict not in _NOT_SERVING]
    if not serving:
        return ""
    if not any(each.cards_total for each in serving) and request.excludes_cards:
        return "no card is one that the pod allows"
    best = sorted((card for each in serving for card in each.best), key=best_first)[:MAX_BEST_CARDS]
    if request.apart is not None and not best:
        return ""  # What is free on cards that are closed to it is in no sum.
    free, total = sum(each.free for each in serving), sum(each.total for each in serving)
    if request.whole:
        free, total = sum(each.cards_free for each in serving), sum(each.cards_total for each in serving)
    total_text = str(total) if request.whole else show_units(total, explanation.unit)
    return f"{describe_cards(best, explanation.unit, whole=request.whole)}; total free {free} of {total_text}"


def describe_help(explanation: Explanation) -> str:
    """Describe what would make the request fit, or that nothing would."""
    if explanation.nodes_fit:
        return "it fits now"
    awaited = _describe_awaited(explanation)
    away = sorted(name for each in explanation.of(Verdict.AWAY) if each.possible for name in each.examples)
    if not explanation.can_fit_where_asked and away:
        waits = f"it has to wait until a node takes pods again, such as {some_names(away, MAX_EXAMPLES)}"
        return f"{waits}; {awaited}" if awaited else waits
    if not explanation.can_fit_where_asked and awaited:
        return awaited
    if not explanation.can_fit_where_asked:
        where = ", of the nodes asked about" if explanation.asked is not None else ""
        return f"{_describe_impossible(explanation)}{where}"
    request, largest = explanation.request, show_units(explanation.largest_now, explanation.unit)
    if request.whole and not explanation.largest_now and explanation.of(Verdict.ELSEWHERE):
        return (
            "another plugin serves whole cards too; if one is free there says kube-scheduler's event FailedScheduling"
        )
    if request.whole:
        largest = counted(explanation.largest_now, "whole card")
    elif request.cards > 1:
        largest = _amount(explanation.largest_now, request, explanation.unit)
    parts = [f"the largest request that fits now is {largest}"]
    if (remedy := explanation.remedy) is not None:
        ended = ", ".join(map(str, remedy.victims))
        parts.append(f"it would fit on {remedy.node} if these pods ended: {ended}")
        if remedy.by_claim:
            parts[-1] += " (kube-scheduler ends no pod for a claim)"
        elif not remedy.is_preemption:
            parts[-1] += " (kube-scheduler does not end them by itself, for their priority or its preemptionPolicy)"
    elif explanation.weighed:
        parts.append("only pods of higher priority are in the way")
    if explanation.weighed < explanation.after_preemption:
        parts.append(f"pods to end were sought on {explanation.weighed} of {explanation.after_preemption} such nodes")
    return "; ".join([*parts, awaited] if awaited else parts)


def _describe_awaited(explanation: Explanation) -> str:
    """Name the nodes whose cards are not known yet; "" if there are none."""
    names, nodes = explanation.awaited, sum(each.nodes for each in explanation.of(Verdict.AWAITED))
    more = f" and {nodes - len(names)} more" if nodes > len(names) else ""
    return f"it may fit once the cards of {', '.join(names)}{more} are known" if names else ""


def _describe_impossible(explanation: Explanation) -> str:
    """Say why the request fits nowhere even if every pod ended."""
    request, verdicts = explanation.request, {each.verdict for each in explanation.tried}
    if not verdicts:
        return f"it can never fit: no node {'is left' if explanation.classes else 'has cards'}"
    if explanation.most_cards:
        return _describe_largest(explanation)
    if Verdict.CLAIMS_ONLY in verdicts:
        return (
            "it can never fit: the nodes with cards give them as claims; label its namespace "
            "gcushare.io/claims=enabled and create the pod again"
        )
    if Verdict.OTHER_UNIT in verdicts:
        return (
            "it can never fit: the nodes with cards count in another unit than the pod; create it with the units of "
            "one of them and their name in gcushare.io/memory-unit"
        )
    if Verdict.DISTRUSTED in verdicts:
        return (
            "it cannot fit while another system, or another unit, has the memory resource of the nodes with cards: "
            "gcushare doctor names it"
        )
    if verdicts & UNSERVED and request.whole:
        return (
            "no node serves whole cards here: another device plugin may, with its own scheduling; otherwise start "
            "the device plugin of nodes that should with --mode whole or --mode both"
        )
    if verdicts & UNSERVED:
        return (
            "it can never fit: no node serves card memory; start the device plugin of nodes that should with "
            "--mode memory or --mode both"
        )
    if request.limit:
        limit = show_units(request.limit, explanation.unit)
        return f"it can never fit: no usable card that the pod allows has the {limit} of its limit"
    if request.excludes_cards:
        return f"it can never fit: no usable card is one that the pod allows{_describe_choice(explanation)}"
    return "it can never fit: no node has a usable card"


def _describe_largest(explanation: Explanation) -> str:
    """Describe the largest request that some node could hold, where there are usable cards that the pod allows."""
    request, ever = explanation.request, show_units(explanation.largest_ever, explanation.unit)
    allowed = ", of those that the pod allows" if request.excludes_cards else ""
    if explanation.most_cards < request.cards:
        serving = " that serves whole cards" if request.whole else ""
        few = f"the most is {explanation.most_cards}{allowed}"
        linked = " that are linked with each other" if request.linked else ""
        return f"it can never fit: no node{serving} has {request.cards} usable cards{linked}; {few}"
    if request.cards > 1:
        return f"it can never fit: the most that {request.cards} usable cards of one node have each is {ever}{allowed}"
    return f"it can never fit: the largest usable card has {ever}{allowed}"


def _describe_choice(explanation: Explanation) -> str:
    """Name what the pod's author chose, and the indexes and models of the cards there are."""
    chosen, cards = explanation.request.selection, [card for node in explanation.kinds for card in node.present_cards]
    if chosen is None or not cards:
        return ""
    pairs = (("use-cards", chosen.use), ("avoid-cards", chosen.avoid))
    written = " and ".join(f"gcushare.io/{key}={','.join(words)[:_MAX_WRITTEN]!r}" for key, words in pairs if words)
    names = [*map(str, sorted({card.index for card in cards})), *sorted({card.model for card in cards} - {""})]
    return f" ({written}, where cards are named {some_names(names, _MAX_CARD_NAMES)}, or by uuid)"


def _amount(units: int, request: CardRequest, unit: str) -> str:
    where = "in one card" if request.cards == 1 else f"in each of {counted(request.cards, 'card')}"
    return f"{show_units(units, unit)} {where}"


def describe_shortage(node: NodeState, request: CardRequest) -> str:
    """Say with numbers why a request does not fit one node."""
    if node.serves_claims:
        return f"node {node.name} gives its cards as claims, which the scheduler extender does not place"
    unit = node.unit.label if node.unit is not None else ""
    if not node.counts_as(request):
        return f"node {node.name} counts memory in {unit}, another unit than the pod (gcushare.io/memory-unit)"
    if not node.serves(request):
        wanted, served = ("whole cards", "memory") if request.whole else ("card memory", "whole cards")
        return f"node {node.name} serves no {wanted}: its device plugin hands out {served} only (--mode)"
    wanted = describe_request(request, unit)
    if request.whole:
        allowed = sum(state.can_hold(request) for state in node.cards.values())
        chosen = ", of those that the pod allows" if request.excludes_cards else ""
        return f"{wanted} of node {node.name}{chosen}; {allowed} of {len(node.cards)} are free"
    open_ = [s for s in node.cards.values() if request.selection is None or s.is_open_to(request.selection)]
    able = [(s.grantable, -s.index) for s in open_ if s.card is None or request.allows(s.card)]
    units, index = max(able, default=(0, 0))
    best = describe_cards([FreeCard(units, node.name, -index)], unit) if able else f"{node.name} has none"
    free = sum(state.grantable for state in node.cards.values())
    chosen = " among the cards that the pod allows" if request.excludes_cards else ""
    kept = node.find_unplaced()
    pods = some_names([str(node.assignments[uid].pod) for uid in sorted(kept)])
    amount = show_units(sum(kept.values()), unit)
    more = f"; {amount} are kept free on each card for pods whose card is not known yet: {pods}" if kept else ""
    others = sorted(
        str(each.pod) for each in node.assignments.values() if request.apart and each.apart == request.apart
    )
    more += f"; other pods of {request.apart} there: {some_names(others)}" if others else ""
    return f"{wanted}{chosen}; {best}; total free {free} of {show_units(node.total, unit)}{more}"
