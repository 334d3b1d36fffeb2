"""``explain POD``: which card a pod has and beside whom, or why it has none and what would help.

The answer is the extender's; without it the same core is asked here, over the same ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gcushare.cluster.extender_client import QUICK_S, open_extender
from gcushare.cluster.reading import Progress, Scope, read_nodes, read_pods
from gcushare.cluster.settings import SourceChoice, SourceFlags
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.errors import GcushareError, NotFoundError, Refused, RemoteContractError
from gcushare.core.explanations import Explainer
from gcushare.core.nodes import Assignment
from gcushare.core.requests import CardRequest
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import PODS
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents.explain import (
    ExplainDocument,
    RequestDocument,
    explain_bound,
    explain_refused,
    explain_waiting,
)
from gcushare.wire.objects import Pod
from gcushare.wire.pods import is_finished, pod_options, pod_ref, pod_request

UNKNOWN_POLICY = "(the extender's default)"
_MAX_UNREADABLE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A pod's explanation with what only the API server tells; ``snapshot`` holds its node, where it has one."""

    document: ExplainDocument
    pod: Pod
    snapshot: ClusterSnapshot
    source: Source

    @property
    def assignment(self) -> Assignment | None:
        """What the pod holds."""
        return self.snapshot.ledger.assignment(self.pod.metadata.uid)


@dataclass(frozen=True, slots=True)
class _Question:
    namespace: str
    name: str
    vendor: Vendor
    figures: SourceFlags


async def explain_pod(
    api: KubeClient, vendor: Vendor, figures: SourceFlags, pod: tuple[str, str], progress: Progress
) -> Explained:
    """Explain the pod of this namespace and name.

    Raises:
        NotFoundError: there is no such pod.
        Refused: it asks for no card of this vendor.
        GcushareError: nobody can be asked.
    """
    question = _Question(*pod, vendor, figures)
    found = await api.get(PODS, question.name, namespace=question.namespace)
    try:
        request = pod_request(found, vendor)
    except (RemoteContractError, Refused) as error:
        return _refused(question, found, str(error))
    if request is None:
        raise Refused(
            f"pod {found.key} asks for no {vendor.memory_resource} and no {vendor.whole_card_resource}: "
            f"nothing of it is decided here; its phase is {found.status.phase!r}"
        )
    if is_finished(found):
        return _refused(question, found, f"the pod has ended ({found.status.phase}) and holds nothing any more")
    if found.is_bound:
        return await _explain_bound(api, question, found, progress)
    return await _explain_waiting(api, question, found, request.cards, progress)


def _refused(question: _Question, pod: Pod, problem: str) -> Explained:
    snapshot = ClusterSnapshot(question.vendor)
    document = explain_refused(pod_ref(pod), problem)
    if is_finished(pod):
        document = msgspec.structs.replace(document, state="ended", can_ever_fit=None, node=pod.spec.node_name)
    return Explained(document=document, pod=pod, snapshot=snapshot, source=snapshot.source)


async def _explain_bound(api: KubeClient, question: _Question, pod: Pod, progress: Progress) -> Explained:
    """Describe a bound pod from its own node alone: the record is on the pod, its neighbours are on the node."""
    node = pod.spec.node_name
    snapshot = ClusterSnapshot(question.vendor, is_partial=True)
    try:
        await read_nodes(api, snapshot, Scope(node=node), progress)
        await read_pods(api, snapshot, Scope(node=node), progress)
    except NotFoundError:
        snapshot.problems.append(f"node {node} does not exist any more")
    snapshot.see_pod(pod)
    facts = snapshot.pods[pod.metadata.uid]
    assignment = snapshot.ledger.assignment(pod.metadata.uid)
    if assignment is None:
        raise RemoteContractError(f"pod {pod.key} is bound to {node!r}, but holds nothing that can be read")
    document = explain_bound(assignment, facts.problem)
    return Explained(document=document, pod=pod, snapshot=snapshot, source=snapshot.source)


async def _explain_waiting(
    api: KubeClient, question: _Question, pod: Pod, request: CardRequest, progress: Progress
) -> Explained:
    """Ask the extender why a pod waits; where it does not answer, ask the same core over the same ledger here."""
    passed_over = ""
    if question.figures.source is not SourceChoice.API:
        timeout_s = QUICK_S if question.figures.source is SourceChoice.AUTO else None
        async with open_extender(question.figures, question.vendor, api, timeout_s=timeout_s) as extender:
            try:
                document = await extender.explain(question.namespace, question.name)
            except GcushareError as error:
                if question.figures.source is SourceChoice.EXTENDER:
                    raise
                passed_over = f"{extender.words} was not used: {error}"
            else:
                # The extender tells no uid to whom it cannot tell from a stranger; the pod was read here.
                document = msgspec.structs.replace(document, uid=pod.metadata.uid)
                source = Source("extender", extender.words)
                return Explained(document=document, pod=pod, snapshot=ClusterSnapshot(question.vendor), source=source)
    source = Source("api", "the API server alone" if passed_over else "the API server", passed_over)
    snapshot = ClusterSnapshot(question.vendor)
    await read_nodes(api, snapshot, Scope(), progress)
    await read_pods(api, snapshot, Scope(), progress)
    return Explained(document=_compute(snapshot, pod, request), pod=pod, snapshot=snapshot, source=source)


def _compute(snapshot: ClusterSnapshot, pod: Pod, request: CardRequest) -> ExplainDocument:
    """Ask the core over the whole snapshot, as the extender does over its own."""
    explainer = Explainer(request, priority=pod_ref(pod).priority)
    for node in snapshot.ledger.nodes.values():
        explainer.add(node)
    wishes = pod_options(pod.metadata.annotations)
    selection = request.selection
    asked = RequestDocument(
        request.units,
        request.cards,
        request.whole,
        wishes.node_policy or UNKNOWN_POLICY,
        wishes.card_policy or UNKNOWN_POLICY,
        selection.use if selection else (),
        selection.avoid if selection else (),
        (wishes.whole_card_policy or UNKNOWN_POLICY) if request.whole else "",
    )
    unreadable = {name: facts.problem for name, facts in snapshot.nodes.items() if facts.problem}
    few = dict(sorted(unreadable.items())[:_MAX_UNREADABLE])
    return explain_waiting(pod_ref(pod), asked, explainer.finish(), few)
