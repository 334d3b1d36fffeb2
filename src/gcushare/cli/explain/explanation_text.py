"""Prints ``explain POD``: the words around the explanation, whose own text is ``wire/documents/explain_text``."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cli.explain.explain import Explained, explain_pod
from gcushare.cli.kubectl.flags import ExplainSettings
from gcushare.cli.kubectl.marks import legend
from gcushare.cli.kubectl.session import Session
from gcushare.cli.kubectl.summary import choose_scale, marks_of_card, show_amount
from gcushare.cli.terminal.output import Document
from gcushare.cli.terminal.screen import wrapped
from gcushare.cluster.reader import Reader
from gcushare.core.assignments import Assignment
from gcushare.core.explain.explanation import MAX_EXAMPLES
from gcushare.core.log_fields import escape
from gcushare.core.wording import counted, utc_text
from gcushare.wire.documents.explain_text import describe_choice, name_pod, render_explanation
from gcushare.wire.objects import Pod
from gcushare.wire.unread_keys import unread_keys_of_pod, unread_resources

_LABEL = 12


async def explain(session: Session, settings: ExplainSettings) -> int:
    pod = settings.pod_key(session.api.config.namespace)
    async with session.screen.progress() as progress:
        explained = await explain_pod(Reader(session.api, progress), session.vendor, settings.figures, pod)
    if not session.print_document(lambda: explain_document(explained)):
        session.screen.print_text(explain_text(explained, session.screen.width))
    session.say_source(explained.source)
    return session.warn(explained.snapshot.problems)


def explain_document(explained: Explained) -> Document:
    """Describe it for programs, together with what the API server says."""
    pod, assignment = explained.pod, explained.assignment
    facts = explained.snapshot.pods.get(pod.metadata.uid)
    return {
        "version": 1,
        "source": explained.source.name,
        "phase": pod.status.phase,
        "schedulerSays": _scheduler_says(explained),
        "corrected": facts.corrected if facts is not None else "",
        "unreadKeys": _unread(pod),
        "claim": explained.claim,
        "beside": [str(each.pod) for each in _neighbours(explained, assignment)] if assignment is not None else [],
        "lacking": [
            {
                "node": each.node,
                "resources": [short.resource for short in each.shortages],
                "unread": each.unread,
                "closed": each.closed,
            }
            for each in explained.lacking
        ],
        "rivalClasses": [str(each.subject).removeprefix("DeviceClass ") for each in explained.rivals],
        "autoscaler": [
            {"id": each.id, "subject": each.subject, "problem": each.problem, "remedy": each.remedy}
            for each in explained.misjudged
        ],
        "explanation": explained.document,
    }


def _unread(pod: Pod) -> tuple[str, ...]:
    return (*unread_keys_of_pod(pod), *unread_resources(pod))


def explain_text(explained: Explained, width: int | None) -> str:
    """Describe it for people on a terminal of ``width`` columns; None for a pipe, whose lines may have any length."""
    text, hanging = _explain_text(explained)
    return "".join(f"{line}\n" for part in text.splitlines() for line in _wrapped(escape(part), hanging, width))


def _wrapped(line: str, hanging: int, width: int | None) -> list[str]:
    """Break a line; what follows is indented below its text."""
    text = line.lstrip()
    indent = len(line) - len(text)
    following = " " * (indent + hanging if indent else 2)
    return wrapped(text, width, first=" " * indent, following=following)


def _explain_text(explained: Explained) -> tuple[str, int]:
    """The text, and how much further than a line itself its continuation is indented."""
    document = explained.document
    head = f"{name_pod(document)}: "
    if explained.assignment is not None:
        facts = _bound_facts(explained, explained.assignment)
        return head + "bound\n" + "".join(f"  {label:<{_LABEL}}{escape(text)}\n" for label, text in facts), _LABEL
    if document.state in ("ended", "refused"):
        text = f"{head}{document.state}\n  {escape(document.summary)}\n"
        lines = _unread(explained.pod)
    else:
        text = render_explanation(document)
        lines = (*_unread(explained.pod), *_outside_words(explained))
    return text + "".join(f"\n{line}\n" for line in lines), 2


def _bound_facts(explained: Explained, assignment: Assignment) -> Iterator[tuple[str, str]]:
    snapshot, document = explained.snapshot, explained.document
    node = snapshot.ledger.nodes[assignment.node]
    facts = snapshot.node_facts.get(assignment.node)
    scale = choose_scale([node.unit])
    if facts is None:
        yield "node", f"{assignment.node} (it has no cards any more, or is gone)"
    else:
        yield "node", f"{facts.name} ({facts.address or 'no address'}), {facts.status}"
    pod_facts = snapshot.pods[document.uid]
    yield "state", pod_facts.state
    yield from (("ignored", text) for text in _unread(explained.pod))
    if not assignment.grants:
        yield "card", f"none recorded; it asks for {pod_facts.units} {scale.label}"
        yield "why", pod_facts.problem or "the device plugin has not placed it yet, or does not run on this node"
        return
    for grant in assignment.grants:
        state = node.cards[grant.index]
        held, total = (show_amount(scale.amount(units, node.unit)) for units in (state.held, state.total))
        reported = [f"{snapshot.vendor.device_word}{grant.index}"]
        if state.card is not None:
            minor = "" if state.card.minor is None else f"minor number {state.card.minor}"
            reported += [each for each in (minor, state.card.model, state.card.uuid) if each]
        yield "card", f"{', '.join(reported)}: {held}/{total} {scale.label} allocated"
        for line in legend(marks_of_card(state)):
            reason = f" ({state.card.reason})" if state.card is not None and state.card.reason else ""
            yield "mind", f"{line[2:]}{reason}"
        share = show_amount(scale.amount(state.share(grant), node.unit))
        sharing = snapshot.claims.pods_sharing_with(document.uid)
        shared = f", which it shares with {', '.join(map(str, sharing))}" if sharing else ""
        yield "holds", f"{share} {scale.label}{' (whole)' if grant.whole else ''}{shared}"
    if assignment.limit:
        limit = show_amount(scale.amount(assignment.limit, node.unit))
        yield "limit", f"{limit} {scale.label}, while no other pod needs it"
    if pod_facts.over_use:
        yield "in use", pod_facts.over_use
    if explained.claim:
        yield "claim", explained.claim
    else:
        yield "recorded", _record_words(assignment)
    if document.choice is not None:
        yield "chosen", describe_choice(document.choice)
    if pod_facts.corrected:
        yield "corrected", f"{pod_facts.corrected}: the kubelet gave it another card than was planned"
    beside = _neighbours(explained, assignment)
    held_by = {each.pod: ["whole card" if g.whole else str(g.units) for g in each.grants] for each in beside}
    yield "beside", ", ".join(f"{pod} ({' + '.join(held)})" for pod, held in held_by.items()) or "no one"


def _record_words(assignment: Assignment) -> str:
    confirmed = "confirmed by the node" if assignment.assigned else "not confirmed by the node yet"
    if not assignment.assign_time_ns:
        return f"without a time; {confirmed}"
    return f"{utc_text(assignment.assign_time_ns // 1_000_000_000)}; {confirmed}"


def _neighbours(explained: Explained, assignment: Assignment) -> list[Assignment]:
    """Other pods that hold memory of the pod's cards, apart from those of its claims."""
    cards, uid_here = {grant.index for grant in assignment.grants}, assignment.pod.uid
    node = explained.snapshot.ledger.nodes[assignment.node]
    same = {uid_here, *(pod.uid for pod in explained.snapshot.claims.pods_sharing_with(uid_here))}
    others = (
        each
        for uid, each in node.assignments.items()
        if uid not in same and any(grant.index in cards for grant in each.grants)
    )
    return sorted(others, key=lambda each: str(each.pod))


def _scheduler_says(explained: Explained) -> str:
    scheduled = next((each for each in explained.pod.status.conditions if each.type == "PodScheduled"), None)
    return scheduled.message if scheduled is not None and scheduled.status != "True" else ""


def _outside_words(explained: Explained) -> Iterator[str]:
    """Reasons other than card memory why a pod waits, as far as the pod says."""
    pod = explained.pod
    says = _scheduler_says(explained)
    if says:
        yield f"kube-scheduler says: {escape(says)}"
    elif explained.document.state == "fits":
        yield "kube-scheduler has said nothing about this pod yet: is it running, and is the extender configured?"
    if pod.status.nominated_node_name:
        yield f"nominated for node {pod.status.nominated_node_name}: pods there are being ended for it"
    if not pod.spec.is_for_default_scheduler:
        yield f"its scheduler is {pod.spec.scheduler_name!r}: it must run and call the extender"
    for each in (*explained.rivals, *explained.misjudged[:MAX_EXAMPLES]):
        yield escape(f"{each.subject}: {each.problem}; what would help: {each.remedy}")
    if more := explained.misjudged[MAX_EXAMPLES:]:
        yield f"the same of {counted(len(more), 'other node')}: gcushare doctor names them"
    for node in explained.lacking:
        if node.unread:
            yield f"what else {node.node} has free is not known: {escape(node.unread)}"
        elif node.closed:
            yield f"{node.node} has room on its cards, but takes no pods: {node.closed}"
        else:
            vendor = explained.snapshot.vendor
            of_cards = [s for s in node.shortages if s.resource in (vendor.memory_resource, vendor.whole_card_resource)]
            if others := "; ".join(str(short) for short in node.shortages if short not in of_cards):
                yield f"{node.node} has room on its cards, but too little of something else: {escape(others)}"
            for short in of_cards:
                yield (
                    f"{node.node} has room on its cards, but its kubelet offers less of them, so kube-scheduler places "
                    f"no pod there ({escape(str(short))}): gcushare doctor says what is wrong with its plugin"
                )
    if explained.document.state == "fits" and says and not explained.lacking and not explained.rivals:
        yield "Card memory is not what it lacks: look at what kube-scheduler says above."
