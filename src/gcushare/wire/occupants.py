"""Pods and disruption budgets as preemption reads them: what a pod takes of its node, and who keeps it there.

Source: the Kubernetes API reference, core/v1 and policy/v1; kube-scheduler's filters NodePorts, InterPodAffinity,
PodTopologySpread and those of volumes; ``filterPodsWithPDBViolation`` of its preemption.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import field

from gcushare.core.node_rules import NodePlace, NodeRequirement, NodeSelectorTerm
from gcushare.core.other_resources import thousandths
from gcushare.core.preemption.choice import Occupancy, Occupant
from gcushare.core.requests import ContainerKind
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Container, KubeObject, Node, ObjectMeta, Pod, PodSpec
from gcushare.wire.other_resources import pod_requests
from gcushare.wire.pods import card_resources, init_kind, is_finished, pod_ref
from gcushare.wire.untrusted_json import Int

_MAX_BUDGET_WORDS = 2048
"""Words of the selectors of one namespace's budgets, one more for each: 600 budgets of one label. Each pod of that
namespace on a node is compared with all of them, between kube-scheduler's calls: 100 pods take a tenth of a second."""

_ANY_ADDRESS = "0.0.0.0"


class _Port(KubeObject, frozen=True):
    host_port: Int = 0
    protocol: str = "TCP"
    host_ip: str = field(default=_ANY_ADDRESS, name="hostIP")


class _OccupantContainer(Container, frozen=True):
    ports: tuple[_Port, ...] = ()


class _Volume(KubeObject, frozen=True):
    persistent_volume_claim: KubeObject | None = None  # These two only count as present.
    ephemeral: KubeObject | None = None


class _OccupantSpec(PodSpec, frozen=True):
    containers: tuple[_OccupantContainer, ...] = ()
    init_containers: tuple[_OccupantContainer, ...] = ()
    volumes: tuple[_Volume, ...] = ()


class OccupantPod(Pod, frozen=True):
    """A pod with what else than amounts keeps other pods off its node, or it off theirs."""

    spec: _OccupantSpec = _OccupantSpec()

    @property
    def host_ports(self) -> frozenset[tuple[str, int, str]]:
        """Protocol, number and address; those of init containers that end are no obstacle."""
        sidecars = (each for each in self.spec.init_containers if init_kind(each) is ContainerKind.SIDECAR)
        ports = (port for each in (*sidecars, *self.spec.containers) for port in each.ports if port.host_port)
        return frozenset((port.protocol, port.host_port, port.host_ip or _ANY_ADDRESS) for port in ports)

    @property
    def keeps_pods_off(self) -> bool:
        """Whether it must not be together with some pods."""
        return self.spec.affinity is not None and bool(self.spec.affinity.pod_anti_affinity.required)

    @property
    def has_other_rules(self) -> bool:
        """Whether a node may have no place for it although every amount fits and no port is taken."""
        spreads = any(each.when_unsatisfiable != "ScheduleAnyway" for each in self.spec.topology_spread_constraints)
        volumes = any(each.persistent_volume_claim or each.ephemeral for each in self.spec.volumes)
        return spreads or volumes or self.keeps_pods_off or bool(self.spec.resource_claims)


class _LabelSelector(KubeObject, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[NodeRequirement, ...] = ()

    @property
    def words(self) -> int:
        return 2 * len(self.match_labels) + sum(1 + len(each.values) for each in self.match_expressions)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether it selects labels; an empty one selects none, as kube-scheduler reads a budget's."""
        if any(labels.get(key) != value for key, value in self.match_labels.items()):
            return False
        if not self.match_expressions:
            return bool(self.match_labels)
        return NodeSelectorTerm(self.match_expressions).selects(NodePlace("", labels))


class _BudgetSpec(KubeObject, frozen=True):
    selector: _LabelSelector = _LabelSelector()


class _BudgetStatus(KubeObject, frozen=True):
    disruptions_allowed: Int = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)


class PodDisruptionBudget(KubeObject, frozen=True):
    """How many of some pods may end now, of those that its status does not name as ending already."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def counts(self, pod: Pod) -> bool:
        """Whether a pod's end counts for it."""
        meta = pod.metadata
        is_near = meta.namespace == self.metadata.namespace and meta.name not in self.status.disrupted_pods
        return is_near and bool(meta.labels) and self.spec.selector.selects(meta.labels)


def _collide(some: Iterable[tuple[str, int, str]], others: Collection[tuple[str, int, str]]) -> bool:
    return any(
        (protocol, number) == (protocol2, number2) and (address == address2 or _ANY_ADDRESS in (address, address2))
        for protocol, number, address in some
        for protocol2, number2, address2 in others
    )


Budgets: TypeAlias = Mapping[str, Sequence[PodDisruptionBudget]]
"""Disruption budgets by namespace."""


def by_namespace(budgets: Iterable[PodDisruptionBudget]) -> Budgets:
    """Sort budgets by namespace; of one those within ``_MAX_BUDGET_WORDS`` count, that allow the fewest pods to end."""
    found: defaultdict[str, list[PodDisruptionBudget]] = defaultdict(list)
    words: Counter[str] = Counter()
    for budget in sorted(budgets, key=lambda each: (each.status.disruptions_allowed, each.key)):
        namespace, size = budget.metadata.namespace, 1 + budget.spec.selector.words
        if words[namespace] + size <= _MAX_BUDGET_WORDS:
            words[namespace] += size
            found[namespace].append(budget)
    return found


def read_occupancy(
    preemptor: OccupantPod,
    node: Node,
    pods: Iterable[OccupantPod],
    budgets: Budgets | None,
    *,
    ahead: Iterable[Pod],
    vendor: Vendor,
) -> Occupancy:
    """Add up what lacks on a node for a preemptor; ``ahead`` are nominees of the node, whose amounts count as taken.

    A resource that the node does not list is given in another way, or to no pod. ``budgets`` are None if they cannot be
    read.

    Raises:
        RemoteContractError: a quantity is malformed.
    """
    here = [pod for pod in pods if not is_finished(pod)]
    requests = {pod.metadata.uid: pod_requests(pod) for pod in (*here, *ahead)}
    total = {name: thousandths(amount) for name, amount in node.status.allocatable.items()}
    asked = {name: amount for name, amount in pod_requests(preemptor).items() if amount and name in total}
    missing = {
        name: amount + sum(each.get(name, 0) for each in requests.values()) - total[name]
        for name, amount in asked.items()
    }
    occupants = {
        pod.metadata.uid: Occupant(
            pod_ref(pod),
            {name: requests[pod.metadata.uid].get(name, 0) for name in asked},
            frozenset(each.key for each in (budgets or {}).get(pod.metadata.namespace, ()) if each.counts(pod)),
            pod.keeps_pods_off or _collide(preemptor.host_ports, pod.host_ports),
        )
        for pod in here
    }
    return Occupancy(
        occupants,
        missing,
        frozenset(card_resources(vendor)),
        None
        if budgets is None
        else {each.key: each.status.disruptions_allowed for few in budgets.values() for each in few},
        preemptor.has_other_rules,
    )
