"""Why a pod waits although cards have room: the resources that the nodes with room lack."""

from __future__ import annotations

from dataclasses import dataclass

from gcushare.cluster.reader import UNFINISHED, Reader
from gcushare.core.errors import GcushareError, RemoteContractError
from gcushare.core.explain.reasons import MAX_EXAMPLES, Verdict
from gcushare.core.other_resources import Shortage, find_shortages
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES, PODS, Resource, Selector
from gcushare.wire.documents.explain import ExplainDocument
from gcushare.wire.objects import Pod
from gcushare.wire.other_resources import POD_DEMAND, PodDemand

_DEMANDS = Resource("api/v1", "pods", PodDemand)


@dataclass(frozen=True, slots=True)
class LackingNode:
    """A node whose cards have room for the pod; ``unread`` says why its other resources are not known."""

    node: str
    shortages: tuple[Shortage, ...] = ()
    unread: str = ""


async def find_lacking(api: KubeClient, pod: Pod, document: ExplainDocument) -> tuple[LackingNode, ...]:
    """Check some of the nodes whose cards have room; those that lack nothing else are left out."""
    rooms = (name for each in document.classes if each.reason == Verdict.FITS.value for name in each.examples)
    elsewhere = document.asked.examples if document.asked is not None else ()
    names = list(dict.fromkeys((*rooms, *elsewhere)))[:MAX_EXAMPLES]
    if not names:
        return ()
    found = []
    try:
        asked = (await api.get(_DEMANDS, pod.metadata.name, namespace=pod.metadata.namespace)).requests()
        for name in names:
            node = await api.get(NODES, name)
            reader, here = Reader(api), Selector(fields=f"{UNFINISHED},spec.nodeName={name}")
            pods = await reader.list_objects(PODS, POD_DEMAND.read, selector=here)
            if reader.problems:
                raise RemoteContractError(reader.problems[0])
            found.append(
                LackingNode(name, find_shortages(asked, node.status.allocatable, [each.requests() for each in pods]))
            )
    except GcushareError as error:
        left = names[len(found) :]
        found += [LackingNode(name, unread=str(error)) for name in left]
    return tuple(each for each in found if each.shortages or each.unread)
