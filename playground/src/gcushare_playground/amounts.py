"""What pods ask of a node, as scheduler and kubelet count it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from gcushare.core.quantities import parse_quantity

JsonObject: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON. The doubles take arbitrary objects, so they read them untyped."""
Amounts: TypeAlias = Mapping[str, int]
"""Whole amounts by resource, cpu in thousandths; fractions are rounded up, as kube-scheduler does."""

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


def effective_requests(spec: JsonObject, assumed: Amounts | None = None) -> dict[str, int]:
    """Sum what a pod holds at its peak: app containers and sidecars together, init containers one at a time.

    ``assumed`` stands in where a container names no amount of a resource.
    """
    steady: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container, runs_alone in _in_order(spec):
        amounts = {**(assumed or {}), **_amounts(container)}
        if runs_alone:
            _raise_to(peak, {name: steady.get(name, 0) + amount for name, amount in amounts.items()})
        else:
            for name, amount in amounts.items():
                steady[name] = steady.get(name, 0) + amount
    _raise_to(steady, peak)
    return steady


def _raise_to(amounts: dict[str, int], least: Amounts) -> None:
    for name, amount in least.items():
        amounts[name] = max(amounts.get(name, 0), amount)


def _in_order(spec: JsonObject) -> Iterator[tuple[JsonObject, bool]]:
    """Yield every container in the order of starting, with whether it ends before the next one starts."""
    for container in spec.get("initContainers") or []:
        yield container, container.get("restartPolicy") != "Always"
    for container in spec.get("containers") or []:
        yield container, False


def _amounts(container: JsonObject) -> dict[str, int]:
    resources = container.get("resources") or {}
    texts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return whole_amounts(texts)


def whole_amounts(texts: Mapping[str, object]) -> dict[str, int]:
    """Read quantities by resource.

    Raises:
        RemoteContractError: one is malformed.
    """
    return {name: math.ceil(parse_quantity(text) * (1000 if name == "cpu" else 1)) for name, text in texts.items()}


def is_extended(name: str) -> bool:
    """Say whether a resource name is one that a device plugin may register.

    Source: Kubernetes' rule: qualified by a domain, not of kubernetes.io, not a quota name.
    """
    prefix, slash, local = name.partition("/")
    if not slash or not prefix or not local or "/" in local:
        return False
    return "kubernetes.io" not in prefix and not name.startswith("requests.") and len(local) <= 63
