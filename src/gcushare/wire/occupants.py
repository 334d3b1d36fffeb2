"""Pods and disruption budgets as preemption reads them: what a pod takes of its node, and who keeps it there.

Source: the Kubernetes API reference, core/v1 and policy/v1; kube-scheduler's filters NodePorts, InterPodAffinity,
PodTopologySpread and those of volumes; ``filterPodsWithPDBViolation`` of its preemption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import field

from gcushare.core.other_resources import thousandths
from gcushare.core.preemption.choice import Occupancy, Occupant
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Container, KubeObject, Node, ObjectMeta, Pod, PodSpec
from gcushare.wire.other_resources import pod_requests
from gcushare.wire.pods import card_resources, is_finished, pod_ref
from gcushare.wire.untrusted_json import Int


class _Skipped(KubeObject, frozen=True):
    """A value that only counts as present."""


class _Port(KubeObject, frozen=True):
    host_port: Int = 0
    protocol: str = "TCP"


class _Container(Container, frozen=True):
    ports: tuple[_Port, ...] = ()


class _Volume(KubeObject, frozen=True):
    persistent_volume_claim: _Skipped | None = None
    ephemeral: _Skipped | None = None


class _OccupantSpec(PodSpec, frozen=True):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


class OccupantPod(Pod, frozen=True):
    """A pod with what else than amounts keeps other pods off its node, or it off theirs."""

    spec: _OccupantSpec = _OccupantSpec()

    @property
    def host_ports(self) -> frozenset[tuple[str, int]]:
        containers = (*self.spec.init_containers, *self.spec.containers)
        return frozenset((port.protocol, port.host_port) for each in containers for port in each.ports) - {("TCP", 0)}

    @property
    def keeps_pods_off(self) -> bool:
        """Whether it must not be together with some pods."""
        return self.spec.affinity is not None and bool(self.spec.affinity.pod_anti_affinity.required)

    @property
    def needs_pods(self) -> bool:
        """Whether it must be together with some pods."""
        return self.spec.affinity is not None and bool(self.spec.affinity.pod_affinity.required)

    @property
    def has_other_rules(self) -> bool:
        """Whether a node may have no place for it although every amount fits and no port is taken."""
        spreads = any(each.when_unsatisfiable != "ScheduleAnyway" for each in self.spec.topology_spread_constraints)
        volumes = any(each.persistent_volume_claim or each.ephemeral for each in self.spec.volumes)
        return spreads or volumes or self.keeps_pods_off or bool(self.spec.resource_claims)


class _Requirement(KubeObject, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def is_met(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists" | "DoesNotExist":
                return (found is not None) == (self.operator == "Exists")
        return False


class _LabelSelector(KubeObject, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[_Requirement, ...] = ()


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
        """Whether a pod's end counts for it. As in kube-scheduler, an empty selector has no pod."""
        wanted, meta = self.spec.selector, pod.metadata
        if meta.namespace != self.metadata.namespace or not meta.labels or meta.name in self.status.disrupted_pods:
            return False
        if not wanted.match_labels and not wanted.match_expressions:
            return False
        is_alike = wanted.match_labels.items() <= meta.labels.items()
        return is_alike and all(each.is_met(meta.labels) for each in wanted.match_expressions)


def read_occupancy(
    preemptor: OccupantPod,
    node: Node,
    pods: Iterable[OccupantPod],
    budgets: Sequence[PodDisruptionBudget] | None,
    *,
    ahead: Iterable[Pod] = (),
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
            frozenset(budget.key for budget in budgets or () if budget.counts(pod)),
            pod.keeps_pods_off or not preemptor.host_ports.isdisjoint(pod.host_ports),
        )
        for pod in here
    }
    return Occupancy(
        occupants,
        missing,
        frozenset(card_resources(vendor)),
        None if budgets is None else {budget.key: budget.status.disruptions_allowed for budget in budgets},
        preemptor.has_other_rules,
    )
