"""The extender's services without its server, for tests of their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from gcushare.core.assignments import Assignment
from gcushare.core.errors import ForbiddenError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.resources import NODES, POD_DISRUPTION_BUDGETS
from gcushare.scheduler_extender.explain.failed_scheduling_events import FailedSchedulingReporter
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.scheduler_extender.extender_settings import NamedNodes
from gcushare.scheduler_extender.leadership import AlwaysLeader
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.bind import BindService
from gcushare.scheduler_extender.verbs.dispatch import Dispatcher, Services
from gcushare.scheduler_extender.verbs.filter import FilterService
from gcushare.scheduler_extender.verbs.preempt import PreemptService
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.scheduler_extender.waking.waker import RoomWaker
from tests.extender_objects import Document, as_pod, filter_body, pod_document, preempt_body
from tests.played_api import Asked, PlayedApi
from tests.unit.extender_cluster import Cluster
from tests.unit.noted_events import Noted


def dispatcher_of(
    *parts: tuple[VendorState, FilterService | None], cluster: Cluster | None = None, reads: LedgersApi | None = None
) -> Dispatcher:
    """What answers under the first vendor's prefix."""
    client = (cluster or Cluster()).client
    return Dispatcher([services_of(state, filters, client, reads) for state, filters in parts], client, SystemClock())


def services_of(
    state: VendorState, filters: FilterService | None, client: KubeClient, reads: LedgersApi | None = None
) -> Services:
    explains = ExplainService(state)
    return Services(
        state=state,
        filters=filters or FilterService(state, named=NamedNodes(20), refusals=lambda _: None),
        binds=BindService(state, client, AlwaysLeader()),
        preempts=PreemptService(state, (reads or LedgersApi(state)).client),
        explains=explains,
        reports=FailedSchedulingReporter(explains, Noted(), clock=SystemClock()),
        wakes=RoomWaker(state, client, lambda: True, clock=SystemClock()),
    )


class LedgersApi(PlayedApi):
    """The API server as a ledger has it: nodes with plenty of all but card memory, pods that hold what is counted.

    ``more`` are pods and preemptors that are none of the ledger's, or that ask for more; ``budgets`` None if they may
    not be read.
    """

    def __init__(self, state: VendorState, *more: Document, budgets: Sequence[Document] | None = ()) -> None:
        self._state = state
        self._more = {pod["metadata"]["name"]: pod for pod in more}
        self._budgets = budgets
        self.reads: list[str] = []

    def see(self, document: Document) -> None:
        """Have a pod, as its author wrote it."""
        self._more.setdefault(document["metadata"]["name"], document)

    async def answer(self, asked: Asked) -> Document:
        if asked.verb == "list":
            return {"items": self._listed(asked)}
        if asked.name not in self._more:
            raise NotFoundError(f"pods {asked.name!r} not found")
        return self._more[asked.name]

    def _listed(self, asked: Asked) -> Sequence[Document]:
        if asked.plural == POD_DISRUPTION_BUDGETS.plural:
            if self._budgets is None:
                raise ForbiddenError("poddisruptionbudgets is forbidden")
            return self._budgets
        name = asked.query["fieldSelector"].partition(",")[0].partition("=")[2]
        if asked.plural == NODES.plural:
            self.reads.append(name)
            amounts = {self._state.vendor.memory_resource: str(self._state.ledger.nodes[name].total)}
            return [{"metadata": {"name": name}, "status": {"allocatable": amounts | {"cpu": "64"}}}]
        held = self._state.ledger.nodes[name].assignments.values()
        documents = [self._more.get(each.pod.name) or self._document(each) for each in held]
        return documents + [pod for pod in self._more.values() if pod["spec"].get("nodeName") == name]

    def _document(self, held: Assignment) -> Document:
        pod, vendor = held.pod, self._state.vendor
        document = pod_document(pod.name, held.units, vendor=vendor, node=held.node, creationTimestamp=pod.created)
        document["spec"]["priority"] = pod.priority
        return document


class Desk:
    """A dispatcher whose watches have brought the pod of every call, as it stands in the body."""

    def __init__(self, *parts: tuple[VendorState, FilterService | None], reads: LedgersApi | None = None) -> None:
        self._states = [state for state, _ in parts]
        self._reads = reads or LedgersApi(self._states[0])
        self.dispatcher = dispatcher_of(*parts, reads=self._reads)

    def filter(self, body: bytes) -> VerbAnswer:
        self._see(body)
        answer = self.dispatcher.filter(body)
        assert isinstance(answer, VerbAnswer), "the pod was to be read"
        return answer

    def prioritize(self, body: bytes) -> VerbAnswer:
        self._see(body)
        answer = self.dispatcher.prioritize(body)
        assert isinstance(answer, VerbAnswer), "the pod was to be read"
        return answer

    async def preempt(self, body: bytes) -> VerbAnswer:
        self._see(body)
        return await self.dispatcher.preempt(body)

    def _see(self, body: bytes) -> None:
        document = json.loads(body)["Pod"]
        self._reads.see(document)
        pod = as_pod(document)
        for state in self._states:
            state.pod_applied(pod)


class Caller:
    """Calls the extender as kube-scheduler does; ``seen``: the watch has shown the cluster's pods."""

    def __init__(
        self, cluster: Cluster, *states: VendorState, filters: FilterService | None = None, seen: bool = True
    ) -> None:
        self.state, self._states, self.cluster = states[0], states, cluster
        if seen:
            self.see()
        self.dispatcher = dispatcher_of(*((state, filters) for state in states), cluster=cluster)

    def see(self) -> None:
        """Let the watch show the cluster as it is now."""
        for state in self._states:
            self.cluster.tell(state)

    async def filter(self, pod: Document, *nodes: str) -> Document:
        """Filter's answer, whether or not the pod has to be read."""
        answer = self.dispatcher.filter(filter_body(pod, nodes))
        found: Document = json.loads((answer if isinstance(answer, VerbAnswer) else await answer).body)
        return found

    async def bind(self, name: str, node: str, uid: str | None = None) -> VerbAnswer:
        call = {"PodName": name, "PodNamespace": "default", "PodUID": uid or f"uid-{name}", "Node": node}
        return await self.dispatcher.bind(json.dumps(call).encode())

    async def bind_error(self, name: str, node: str, uid: str | None = None) -> str:
        """The error of a bind call; empty if the pod is bound."""
        error: str = json.loads((await self.bind(name, node, uid)).body)["Error"]
        return error


def answer_of(state: VendorState, pod: Document, *names: str, most: int | None = 20) -> Document:
    """Filter's answer about these nodes, or about all that are known."""
    filters = FilterService(state, named=NamedNodes(most), refusals=lambda _: None)
    body = Desk((state, filters)).filter(filter_body(pod, names or list(state.ledger.nodes))).body
    found: Document = json.loads(body)
    return found


async def victims_of(
    state: VendorState, pod: Document, victims: Mapping[str, Sequence[str]], *, reads: LedgersApi | None = None
) -> dict[str, list[str]]:
    """The names of the pods that preempt ends of those proposed, by node."""
    body = (await Desk((state, None), reads=reads).preempt(preempt_body(pod, victims))).body
    return ended_pods(body)


def ended_pods(answer: bytes) -> dict[str, list[str]]:
    """The names in preempt's answer, by node."""
    found = json.loads(answer)["NodeNameToMetaVictims"] or {}
    return {node: [pod["UID"].removeprefix("uid-") for pod in each["Pods"]] for node, each in found.items()}
