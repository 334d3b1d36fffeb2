"""``explain POD``: which card a pod has and which pods share it, or why it has none and what would help.

The answer is the extender's; without it the same core is asked here, over the same ledger. For a pod whose cards have
room somewhere, the other resources that those nodes lack are found too.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from gcushare.cluster.cluster_flags import SourceChoice, SourceFlags
from gcushare.cluster.diagnosis.checks.autoscaler import check_gpu_labels, check_startup_taint
from gcushare.cluster.diagnosis.checks.claims import find_rivals
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, in_order
from gcushare.cluster.explaining import Question, answer
from gcushare.cluster.extender import QUICK_S, open_extender
from gcushare.cluster.gather_snapshot import gather, read_claims
from gcushare.cluster.programs import SEEN_NODES
from gcushare.cluster.reader import UNFINISHED, Reader, Scope
from gcushare.cluster.rights import Area
from gcushare.cluster.snapshot import ClusterSnapshot, Source
from gcushare.core.assignments import Assignment
from gcushare.core.errors import GcushareError, NotFoundError, Refused, RemoteContractError
from gcushare.core.explain.explanation import MAX_EXAMPLES
from gcushare.core.explain.verdicts import Verdict
from gcushare.core.other_resources import Shortage, find_shortages
from gcushare.core.requests import PodRequest
from gcushare.core.units import parse_memory_unit
from gcushare.kube import resources
from gcushare.kube.client import KubeClient
from gcushare.vendors.vendor import Vendor
from gcushare.wire.documents.explain import (
    ExplainDocument,
    explain_bound,
    explain_claiming,
    explain_refused,
    explain_waiting,
    request_document,
)
from gcushare.wire.dra.claims import add_up_asked, asked_of_claim, claimed_request, named_claims, problem_of_both_ways
from gcushare.wire.dra.device_classes import extended_resources
from gcushare.wire.dra.slices import RESOURCE_SLICE
from gcushare.wire.objects import POD, Pod
from gcushare.wire.other_resources import pod_requests
from gcushare.wire.pod_options import pod_options
from gcushare.wire.pods import current_request, is_finished, is_mirror, pod_ref
from gcushare.wire.unread_keys import find_foreign_request, unread_resources

UNKNOWN_POLICY = "(the extender's default)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A pod's explanation with what only the API server says; ``snapshot`` holds its node, if it has one."""

    document: ExplainDocument
    pod: Pod
    snapshot: ClusterSnapshot
    source: Source
    lacking: tuple[LackingNode, ...] = ()
    """Nodes whose cards have room and that lack something else."""
    claim: str = ""
    """How far the claims of a bound pod have come; empty for one with a record."""
    rivals: tuple[Finding, ...] = ()
    """Other DeviceClasses that may take the place of ours for a pod that waits for whole cards."""
    misjudged: tuple[Finding, ...] = ()
    """Nodes for which Cluster Autoscaler may add none, or too many, to a pod that fits nowhere."""

    @property
    def assignment(self) -> Assignment | None:
        """What the pod holds, or shares of other pods' claims."""
        return held_by(self.snapshot, self.pod)


def held_by(snapshot: ClusterSnapshot, pod: Pod) -> Assignment | None:
    """What a pod holds, or shares of other pods' claims."""
    uid = pod.metadata.uid
    return snapshot.ledger.assignment(uid) or snapshot.claims.find_shared(uid)


async def explain_pod(reader: Reader, vendor: Vendor, figures: SourceFlags, pod: tuple[str, str]) -> Explained:
    """Explain the pod of this namespace and name.

    Raises:
        NotFoundError: there is no such pod.
        Refused: it asks for no card of this vendor or has it by a claim already, or has whole cards without our record.
        GcushareError: neither the API server nor the extender answers.
    """
    namespace, name = pod
    try:
        found = await reader.client.get(resources.PODS, name, namespace=namespace)
    except NotFoundError as error:
        raise NotFoundError(f"there is no pod {name!r} in namespace {namespace!r}") from error
    claimed = claimed_request(found, vendor) or await _read_claims_of(reader, vendor, found)
    try:
        if claimed is not None and not found.is_bound and (problem := problem_of_both_ways(found, vendor)):
            raise Refused(problem)
        request = claimed or current_request(found, vendor)
    except (RemoteContractError, Refused) as error:
        return _explain_refused(vendor, found, str(error))
    if not found.is_bound and (other := find_foreign_request(found, vendor)) is not None:
        name, words = other.neighbour.name, ", ".join(other.signs)
        problem = (
            f"it asks for cards in the words of {name} ({words}), and only {name} reads them; to have one here, ask "
            f"for {vendor.memory_resource} and no other scheduler: docs/moving-over.md has the steps"
        )
        return _explain_refused(vendor, found, problem)
    if request is None and is_mirror(found.metadata.annotations):
        raise Refused(
            f"pod {found.key} is a static pod: the kubelet of {found.spec.node_name} starts it and gives it its cards; "
            "nothing of it is decided here, and `inspect -d` shows what it holds there"
        )
    if request is None:
        hints = "".join(f"; {text}" for text in unread_resources(found))
        raise Refused(
            f"pod {found.key} asks for no {vendor.memory_resource} and no {vendor.whole_card_resource}: nothing of it "
            f"is decided here; its phase is {found.status.phase!r}{hints}"
        )
    if found.is_being_deleted and not found.is_bound:
        return _explain_refused(vendor, found, "the pod is being deleted, and is placed no more")
    if is_finished(found):
        how = ": ".join(filter(None, (found.status.phase, found.status.reason, found.status.message)))
        return _explain_refused(vendor, found, f"the pod has ended ({how}) and holds nothing any more")
    if found.is_bound:
        return await _explain_bound(reader, vendor, figures, found, is_claim=claimed is not None)
    explained = await _explain_unbound(reader, vendor, figures, found, request, is_claim=claimed is not None)
    lacking = await find_lacking(reader.client, vendor, found, explained.document)
    misjudged = await _find_misjudged(reader, vendor) if explained.document.state == "waits" else ()
    explained = replace(explained, lacking=lacking, misjudged=misjudged)
    if claimed is not None or not request.cards.whole:
        return explained
    classes = extended_resources(await reader.list_if_allowed(Area.CLAIMS, resources.DEVICE_CLASSES))
    return replace(explained, rivals=tuple(find_rivals(classes, vendor)))


async def _find_misjudged(reader: Reader, vendor: Vendor) -> tuple[Finding, ...]:
    """Check the nodes that share cards, as doctor does. Who may not list nodes gets none."""
    labelled = partial(reader.client.list_all, SEEN_NODES, resources.Selector(labels=vendor.node_label))
    facts = Facts(now=reader.now(), nodes=tuple(await reader.attempt(Area.NODES, labelled) or ()))
    return tuple(in_order((*check_gpu_labels(facts), *check_startup_taint(facts))))


async def _read_claims_of(reader: Reader, vendor: Vendor, pod: Pod) -> PodRequest | None:
    """Read what a pod asks for by claims and templates of its author.

    Raises:
        Refused: one of them is allocated, and the pod has no node yet.
    """
    client, namespace = reader.client, pod.metadata.namespace
    made = {each.name for each in pod.status.resource_claim_statuses}
    specs = []
    for name in sorted(named_claims(pod)):
        with contextlib.suppress(NotFoundError):
            claim = await client.get(resources.RESOURCE_CLAIMS, name, namespace=namespace)
            if not (pod.is_bound or pod.is_being_deleted) and (results := claim.results_of(vendor.claims.driver)):
                where = ", ".join(f"{each.device} of {each.pool}" for each in results)
                raise Refused(
                    f"its claim {name} is allocated: {where}. kube-scheduler places the pod there alone, and the pod's "
                    "events say what it waits for"
                )
            specs.append(claim.spec)
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name and entry.name not in made:
            with contextlib.suppress(NotFoundError):
                name = entry.resource_claim_template_name
                specs.append(
                    (await client.get(resources.RESOURCE_CLAIM_TEMPLATES, name, namespace=namespace)).spec.spec
                )
    return add_up_asked((asked_of_claim(each, vendor) for each in specs), parse_memory_unit(vendor.default_unit))


async def _explain_unbound(
    reader: Reader, vendor: Vendor, figures: SourceFlags, pod: Pod, asked: PodRequest, *, is_claim: bool
) -> Explained:
    """Ask the extender why a pod waits; if it does not answer, ask the same core over the same ledger here."""
    passed_over = ""
    if figures.source is not SourceChoice.API:
        timeout_s = QUICK_S if figures.source is SourceChoice.AUTO else None
        async with open_extender(figures, vendor, reader.client, timeout_s=timeout_s) as extender:
            try:
                document = await extender.explain(pod.metadata.namespace, pod.metadata.name)
            except GcushareError as error:
                if figures.source is SourceChoice.EXTENDER:
                    raise
                passed_over = f"{extender.text} was not used: {error}"
            else:
                # The extender gives no uid to an unauthenticated caller; the pod was read here.
                document = msgspec.structs.replace(document, uid=pod.metadata.uid)
                source = Source("extender", extender.text)
                return Explained(document=document, pod=pod, snapshot=ClusterSnapshot(vendor), source=source)
    snapshot = await gather(reader, vendor)
    source = Source("api", "the API server alone" if passed_over else "the API server", passed_over)
    document = _explain_waiting(snapshot, pod, asked, is_claim=is_claim)
    return Explained(document=document, pod=pod, snapshot=snapshot, source=source)


def _explain_refused(vendor: Vendor, pod: Pod, problem: str) -> Explained:
    snapshot = ClusterSnapshot(vendor)
    document = explain_refused(pod_ref(pod), problem)
    if is_finished(pod):
        document = msgspec.structs.replace(document, state="ended", can_ever_fit=None, node=pod.spec.node_name)
    return Explained(document=document, pod=pod, snapshot=snapshot, source=snapshot.source)


async def _explain_bound(
    reader: Reader, vendor: Vendor, figures: SourceFlags, pod: Pod, *, is_claim: bool
) -> Explained:
    """Describe a bound pod from its own node alone: the record is on the pod, its neighbours are on the node.

    Why the pod has this node is added if the extender answers: only the extender knows.
    """
    node = pod.spec.node_name
    try:
        snapshot = await gather(reader, vendor, Scope(node=node))
    except NotFoundError:
        snapshot = ClusterSnapshot(vendor, is_partial=True, problems=reader.problems)
        snapshot.problems.append(f"node {node} does not exist any more")
        if is_claim:
            await read_claims(reader, snapshot)
    snapshot.pod_applied(pod)
    assignment, uid = held_by(snapshot, pod), pod.metadata.uid
    if assignment is None:
        raise Refused(f"pod {pod.key} on node {node} {_say_nothing_held(snapshot, pod, is_claim=is_claim)}")
    facts, sharing = snapshot.pods[uid], snapshot.claims.pods_sharing_with(uid)
    document = explain_bound(assignment, snapshot.share(assignment), facts.problem, facts.over_use, None, sharing)
    if figures.source is not SourceChoice.API:
        async with open_extender(figures, vendor, reader.client, timeout_s=QUICK_S) as extender:
            with contextlib.suppress(GcushareError):
                found = await extender.explain(pod.metadata.namespace, pod.metadata.name)
                choice = found.choice if found.node == node else None
                document = msgspec.structs.replace(document, choice=choice)
    claim = await _describe_claim(reader, snapshot, pod) if snapshot.claims.names(uid) else ""
    return Explained(document=document, pod=pod, snapshot=snapshot, source=snapshot.source, claim=claim)


def _say_nothing_held(snapshot: ClusterSnapshot, pod: Pod, *, is_claim: bool) -> str:
    """Say why a bound pod holds nothing that is known here. Whole cards without a record may be another plugin's."""
    if is_claim:
        return "asks by a claim, and no allocated claim of it can be read: kubectl describe resourceclaims says more"
    lacks = f"has no record of its {snapshot.vendor.whole_card_resource}"
    if snapshot.serves_whole(pod.spec.node_name):
        return f"{lacks}: the device plugin writes it once the kubelet admits the pod; see its events and the plugin"
    return (
        f"{lacks}: gcushare's plugin serves no whole cards there: another one gave them, and nothing of it is decided "
        "here"
    )


async def _describe_claim(reader: Reader, snapshot: ClusterSnapshot, pod: Pod) -> str:
    """Say how far a bound pod's claims have come; without its driver the kubelet cannot prepare them."""
    if pod.status.phase == "Running":
        return "allocated by kube-scheduler and prepared by the node"
    node, driver = pod.spec.node_name, snapshot.vendor.claims.driver
    selector = resources.Selector(fields=f"spec.nodeName={node},spec.driver={driver}")
    with contextlib.suppress(GcushareError):  # Who may not read slices gets the sentence without them.
        if not await reader.list_objects(resources.RESOURCE_SLICES, RESOURCE_SLICE.read, selector=selector):
            return (
                f"allocated by kube-scheduler, and not prepared: {driver} publishes no ResourceSlice of {node}, so its "
                "driver is down; see the device plugin's pod on that node"
            )
    return "allocated by kube-scheduler; the pod does not run yet"


def _explain_waiting(snapshot: ClusterSnapshot, pod: Pod, wanted: PodRequest, *, is_claim: bool) -> ExplainDocument:
    """Ask the core over the whole snapshot, as the extender does over its own."""
    wanted = (snapshot.claims.request_of(pod) if is_claim else None) or wanted
    asking, request = pod_ref(pod), wanted.cards
    preempts = pod.spec.preemption_policy != "Never"
    question = Question(request, asking.priority, pod.spec.node_rules, by_claim=is_claim, preempts=preempts)
    found, gates = answer(snapshot, question), [gate.name for gate in pod.spec.scheduling_gates]
    if is_claim:
        return explain_claiming(asking, request, found, divisor=wanted.divisor, gates=gates)
    options = pod_options(pod.metadata.annotations)
    policies = (options.node_policy, options.card_policy, options.whole_card_policy)
    return explain_waiting(
        asking,
        request_document(request, *(policy or UNKNOWN_POLICY for policy in policies)),
        found,
        divisor=wanted.divisor if snapshot.vendor.multi_card_runtime else 1,
        gates=gates,
        unreadable={name: facts.problem for name, facts in snapshot.node_facts.items() if facts.problem},
    )


@dataclass(frozen=True, slots=True)
class LackingNode:
    """A node whose cards have room for the pod; ``unread`` says why its other resources are not known.

    ``closed`` says why the node takes no pods at all.
    """

    node: str
    shortages: tuple[Shortage, ...] = ()
    unread: str = ""
    closed: str = ""


async def find_lacking(api: KubeClient, vendor: Vendor, pod: Pod, document: ExplainDocument) -> tuple[LackingNode, ...]:
    """Check some of the nodes whose cards have room; those that lack nothing else are left out."""
    # What kube-scheduler gives by a claim, or ignores, where the node does not list it.
    unlisted = {vendor.whole_card_resource, vendor.claims.extender_resource}
    rooms = (name for each in document.classes if each.reason == Verdict.FITS.value for name in each.examples)
    elsewhere = document.asked.examples if document.asked is not None else ()
    names = list(dict.fromkeys((*rooms, *elsewhere)))[:MAX_EXAMPLES]
    if not names:
        return ()
    found = []
    try:
        asked = pod_requests(pod)
        for name in names:
            node = await api.get(resources.NODES, name)
            if not node.is_ready:
                found.append(LackingNode(name, closed="it is not ready"))
                continue
            ignored = unlisted - node.status.allocatable.keys()
            counted = {resource: amount for resource, amount in asked.items() if resource not in ignored}
            reader, here = Reader(api), resources.Selector(fields=f"{UNFINISHED},spec.nodeName={name}")
            pods = await reader.list_objects(resources.PODS, POD.read, selector=here)
            if reader.problems:
                raise RemoteContractError(reader.problems[0])
            found.append(LackingNode(name, find_shortages(counted, node.status.allocatable, map(pod_requests, pods))))
    except GcushareError as error:
        left = names[len(found) :]
        found += [LackingNode(name, unread=str(error)) for name in left]
    return tuple(each for each in found if each.shortages or each.unread or each.closed)
