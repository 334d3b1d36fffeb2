"""Questions to a workload: other nodes, another unit, how many nodes are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.policies import Given, make_policy
from gcushare.cli.simulate.runs import Placer
from gcushare.cli.simulate.workload import NodeSpec, units_of
from gcushare.core.errors import ConfigError, Refused
from gcushare.core.packing.expected_fill import Demand, Room

MAX_TIMES = 64
"""How many times the given nodes may be needed before the search gives up."""


def with_mix(nodes: Sequence[NodeSpec], mix: Mapping[str, int]) -> list[NodeSpec]:
    """Take a number of nodes of each model, each like the model's most frequent one.

    Raises:
        ConfigError: no node has a model, or no node is left.
    """
    kinds = {model: _most_frequent([node for node in nodes if node.model == model]) for model in mix}
    unknown = sorted(model for model, kind in kinds.items() if kind is None)
    if unknown:
        known = ", ".join(sorted({node.model for node in nodes}))
        raise ConfigError(f"node-mix names {', '.join(unknown)}, which no node has; known models: {known}")
    found = [
        replace(kind, name=f"{model}-{number:05d}")
        for model, kind in kinds.items()
        if kind is not None
        for number in range(mix[model])
    ]
    if not found:
        raise ConfigError("node-mix leaves no node: give at least one model a count above 0")
    return found


def with_granularity(pods: Sequence[Demand], units: int, card_units: int) -> list[Demand]:
    """Round every share up to a multiple of ``units``. A share that reaches a whole card becomes one."""
    rounded = {pod: _rounded(pod, units, card_units) for pod in set(pods)}
    return [rounded[pod] for pod in pods]


def nodes_needed(
    policy: str, nodes: Sequence[NodeSpec], pods: Sequence[Demand], seed: int, *, cards_alone: bool = False
) -> list[NodeSpec]:
    """The fewest nodes of the given mix on which the policy places every pod, by bisection.

    Nodes are taken from the mix evenly, so that any number of them resembles it. Bisection assumes that more nodes
    never place fewer pods. A heuristic does not promise that, but the result suffices and one node fewer does not.
    ``cards_alone``: see ``policies.Given``.

    Raises:
        Refused: a pod fits on no node however many there are, or ``MAX_TIMES`` times the given nodes are not enough.
    """
    misfits = [
        pod
        for pod in sorted(set(pods))
        if not any(
            Room(node.cpu_milli, node.memory_mib, (), (node.card_units,) * node.cards, node.model).fits(pod)
            for node in set(nodes)
        )
    ]
    if misfits:
        raise Refused(f"no number of these nodes is enough: {misfits[0]} fits on none even when it is empty")

    def suffices(count: int) -> bool:
        cluster = SimulatedCluster(mixed(nodes, count))
        placer = Placer(cluster, make_policy(policy, Given(cluster, pods, seed, cards_alone)))
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


def mixed(nodes: Sequence[NodeSpec], count: int) -> list[NodeSpec]:
    """``count`` nodes in the proportions of the given ones, each kind as often as its share says."""
    kinds = Counter(replace(node, name="") for node in nodes)
    shares = sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0].model, pair[0].cards, pair[0].cpu_milli))
    points = sorted(
        ((position + 0.5) / amount, rank) for rank, (_, amount) in enumerate(shares) for position in range(amount)
    )
    ranks = [rank for _, rank in points]
    return [replace(shares[ranks[n % len(ranks)]][0], name=f"node-{n:05d}") for n in range(count)]


def _rounded(pod: Demand, units: int, card_units: int) -> Demand:
    if pod.whole or not pod.cards:
        return pod
    rounded = -(-pod.units // units) * units
    return replace(pod, units=0, whole=True) if rounded >= card_units else replace(pod, units=rounded)


def _most_frequent(nodes: Sequence[NodeSpec]) -> NodeSpec | None:
    kinds = Counter(replace(node, name="") for node in nodes)
    return min(kinds, key=lambda kind: (-kinds[kind], kind.cards, kind.cpu_milli)) if kinds else None
