"""The queries that the cluster's panels are made of."""

from __future__ import annotations

OURS = 'vendor=~"$vendor"'


def one(metric: str, by: str = "vendor, unit") -> str:
    """The leader's figure: other replicas may be behind, and do not know which nodes kube-scheduler asked about."""
    return f"max by ({by}) ({metric}{{{OURS}}} and on (namespace, job, instance) gcushare_leader == 1)"


def all_nodes(metric: str) -> str:
    """The nodes' figures, added up."""
    return f"sum by (vendor) ({metric}{{{OURS}}})"


def rate(metric: str, by: str, where: str = "") -> str:
    """Per second, over all replicas."""
    return f"sum by ({by}) (rate({metric}{{{OURS}{where}}}[$__rate_interval]))"


def per_node(aggregate: str, metric: str, condition: str = "") -> str:
    """One figure per node."""
    return f"{aggregate} by (vendor, node) ({metric}{{{OURS}}}{condition})"


def quantile(share: float) -> str:
    """The time within which this share of the scheduler's calls is answered, by verb."""
    return f"histogram_quantile({share}, {rate('gcushare_extender_request_seconds_bucket', 'verb, le')})"
