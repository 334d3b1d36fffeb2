"""Runs the extender's policies on one workload, and finds how many nodes each of them needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.policies import BesideKubeScheduler, NodeChooser, of_the_extender
from gcushare.cli.simulate.runs import Placer, Run, describe_demand, run_policy
from gcushare.cli.simulate.workload import EmptyNode, arrange, build_workload, units_of
from gcushare.core.errors import Refused
from gcushare.core.packing.expected_fill import Demand, Room

SEED = 42
"""Of the random order: every call of the command gives the same answer."""

MAX_TIMES = 64
"""How many times the given nodes may be needed before the search gives up."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: nodes, pods, and how much of the cluster's cards is requested; None takes the pods once each.

    The policies are asked about pods with cards alone, as kube-scheduler asks the extender.
    """

    nodes: tuple[EmptyNode, ...]
    pods: tuple[Demand, ...]
    load: float | None
    policies: tuple[str, ...]

    def workload(self) -> list[Demand]:
        """Build the arrivals."""
        if self.load is None:
            return arrange(self.pods, SEED)
        card_units = max(node.card_units for node in self.nodes)
        limit = int(self.load * sum(node.units for node in self.nodes))
        return build_workload(self.pods, limit, card_units, SEED)

    def make_policy(self, name: str) -> NodeChooser:
        """Make a policy for one run."""
        return BesideKubeScheduler(of_the_extender(name, self.pods))


def compare(plan: Comparison) -> Iterator[tuple[str, Run]]:
    """Place the workload by every policy."""
    workload = plan.workload()
    for name in plan.policies:
        yield name, run_policy(plan.make_policy(name), SimulatedCluster(plan.nodes), workload)


def compare_needs(plan: Comparison) -> Iterator[tuple[str, list[EmptyNode]]]:
    """The nodes of the plan's mix that each policy needs for all pods.

    Raises:
        Refused: as ``nodes_needed``.
    """
    workload = plan.workload()
    for name in plan.policies:
        yield name, nodes_needed(plan, name, workload)


def nodes_needed(plan: Comparison, policy: str, pods: Sequence[Demand]) -> list[EmptyNode]:
    """The fewest nodes of the plan's mix on which the policy places every pod, by bisection.

    Nodes are taken from the mix evenly, so that any number of them resembles it. Bisection assumes that more nodes
    never place fewer pods. A heuristic does not promise that, but the result suffices and one node fewer does not.

    Raises:
        Refused: a pod fits on no node however many there are, or ``MAX_TIMES`` times the given nodes are not enough.
    """
    nodes = plan.nodes
    misfits = [
        pod
        for pod in sorted(set(pods))
        if not any(
            Room(node.cpu_milli, node.memory_mib, (), (node.card_units,) * node.cards, node.model).fits(pod)
            for node in set(nodes)
        )
    ]
    if misfits:
        raise Refused(
            f"no number of these nodes is enough: a pod of {describe_demand(misfits[0])} fits on none even when it is "
            "empty"
        )

    def suffices(count: int) -> bool:
        cluster = SimulatedCluster(mixed(nodes, count))
        placer = Placer(cluster, plan.make_policy(policy))
        return all(placer.place(str(number), pod) is not None for number, pod in enumerate(pods))

    card_units = max(node.card_units for node in nodes)
    asked = sum(units_of(pod, card_units) for pod in pods)
    low, high = 0, max(1, asked * len(nodes) // sum(node.units for node in nodes))
    while not suffices(high):
        low, high = high, high * 5 // 4 + 1
        if high > MAX_TIMES * len(nodes):
            raise Refused(f"{low} nodes are not enough for policy {policy!r}; the search ends here")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return mixed(nodes, high)


def mixed(nodes: Sequence[EmptyNode], count: int) -> list[EmptyNode]:
    """``count`` nodes in the proportions of the given ones, each kind as often as its share says."""
    kinds = Counter(replace(node, name="") for node in nodes)
    shares = sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0].model, pair[0].cards, pair[0].cpu_milli))
    points = sorted(
        ((position + 0.5) / amount, rank) for rank, (_, amount) in enumerate(shares) for position in range(amount)
    )
    ranks = [rank for _, rank in points]
    return [replace(shares[ranks[n % len(ranks)]][0], name=f"node-{n:05d}") for n in range(count)]
