"""Queries of one node's figures."""

from __future__ import annotations

HERE = 'vendor=~"$vendor", node="$node"'
OF_POD = "vendor, card, pod_namespace, pod_name"
THIS_PLUGIN = f"on (job, instance) gcushare_plugin_pods{{{HERE}}}"
"""Joins figures that know no node to the plugin that serves them."""


def by_card(metric: str) -> str:
    """One figure per card."""
    return f"sum by (vendor, card) ({metric}{{{HERE}}})"


def by_pod(metric: str) -> str:
    """One figure per pod and card."""
    return f"sum by ({OF_POD}) ({metric}{{{HERE}}})"


def in_all(metric: str, condition: str = "") -> str:
    """One figure per vendor."""
    return f"sum by (vendor) ({metric}{{{HERE}}}{condition})"


def row_of_card(metric: str) -> str:
    """One row of a table per card."""
    return f"max by (vendor, card, uuid, model) ({metric}{{{HERE}}})"


def increase(metric: str, by: str = "vendor") -> str:
    """How much a counter rose."""
    return f"sum by ({by}) (increase({metric}{{{HERE}}}[$__rate_interval]))"
