"""The parts of a cluster that are examined, and those that could not be read."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Area(enum.Enum):
    """A part of a cluster that is read by itself; the value says what is checked with it."""

    VERSION = "the API server's version and time"
    NODES = "nodes, their inventories and capacities"
    PODS = "pods, their records and our programs"
    PLUGINS = "what the device plugins and the kubelets say"
    EXTENDER = "the scheduler extender and its calls"
    SERVICE = "the address that the scheduler has to call"
    CONFIG_MAPS = "how the schedulers are configured"
    LEASES = "who leads the extenders"
    POLICIES = "whether records are protected from pods' authors"
    SECRETS = "when certificates end"
    SLICES = "which other drivers offer the cards of nodes"
    CLAIMS = "slices, DeviceClasses and policies of claims, namespaces and their quotas"
    NAMESPACES = "whether the namespaces of our programs admit their pods"


@dataclass(frozen=True, slots=True)
class Unread:
    """A part that could not be read, and why."""

    part: Area
    problem: str
    lacks_right: bool = False
