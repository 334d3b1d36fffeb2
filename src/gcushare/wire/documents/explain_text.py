"""The explain document as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gcushare.core.wording import counted
from gcushare.wire.documents.explain import ChoiceDocument, ExplainDocument


def name_pod(document: ExplainDocument) -> str:
    """Name the pod for people, with its uid if the document has it."""
    uid = f" ({document.uid})" if document.uid else ""
    return f"pod {document.namespace}/{document.name}{uid}"


def describe_choice(choice: ChoiceDocument) -> str:
    """Say why a pod has its node."""
    place = "the best" if not choice.better_nodes else f"{choice.better_nodes} better ones"
    text = (
        f"{place} of {counted(choice.fitting_nodes, 'node')} with room by the policy {choice.node_policy} (score "
        f"{choice.score_percent} of 100); card policy {choice.card_policy}"
    )
    if choice.set_aside:
        text += (
            f"; its {', '.join(choice.set_aside)} counted only among the {counted(choice.named_nodes, 'node')} that "
            "kube-scheduler was offered (--filter-answer)"
        )
    return text


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
            f"  {each.reason}{f' ({each.obstacle})' if each.obstacle else ''}{f': {each.text}' if each.text else ''}",
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
