"""One snapshot of a cluster: all input of the checks, as values, including what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import msgspec

from gcushare.cluster.diagnosis.schedulers import SchedulerFacts
from gcushare.cluster.metrics_text import MetricsPage
from gcushare.cluster.programs import ProgramKind, ReportingNode, SeenPod, Service
from gcushare.cluster.rights import Area, Unread
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.cards import Inventory
from gcushare.core.errors import RemoteContractError
from gcushare.core.quantities import Int
from gcushare.vendors import VENDORS, Vendor
from gcushare.wire.documents.node_report import NodeReport
from gcushare.wire.documents.plugin_status import PluginStatus
from gcushare.wire.dra.slices import ResourceSlice
from gcushare.wire.nodes import decode_inventory, has_trace
from gcushare.wire.objects import Lease, Node, ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFacts:
    """A device plugin's pod and what it answered; without a ``status``, ``problem`` says why."""

    pod: SeenPod
    vendor: Vendor
    status: PluginStatus | None = None
    problem: str = ""

    @property
    def node(self) -> str:
        return self.pod.spec.node_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """One extender: a pod, or what answers behind the Service. ``pod`` is None for the latter."""

    name: str
    pod: SeenPod | None = None
    version: str = ""
    figures: MetricsPage = field(default_factory=lambda: MetricsPage(()))
    problem: str = ""

    @property
    def is_leader(self) -> bool:
        """Whether it says that it serves the scheduler."""
        return self.figures.sum("gcushare_leader") >= 1

    @property
    def started(self) -> float:
        """When it began to count, in seconds since the epoch on its own clock; 0 if it does not say."""
        return self.figures.least("gcushare_ledger_drifts_created")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderFacts:
    """The scheduler extender: its replicas, its Service, its Lease."""

    replicas: tuple[ReplicaFacts, ...] = ()
    service: Service | None = None
    service_name: str = ""
    """``namespace/name``."""
    service_problem: str = ""
    """Why nothing answers behind the Service; empty if something does or nothing was asked."""
    lease: Lease | None = None

    def calls(self, verb: str) -> float | None:
        """How often the scheduler called a verb since the replicas started; None if no replica could be asked."""
        reported = [each for each in self.replicas if each.figures]
        if not reported:
            return None
        return sum(each.figures.sum("gcushare_extender_request_seconds_count", verb=verb) for each in reported)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFacts:
    """A ValidatingAdmissionPolicy: its text, and whether a binding has it deny."""

    name: str
    text: str
    denies: bool


class QuotaSpec(msgspec.Struct, frozen=True):
    hard: dict[str, str | Int] = {}


class Quota(msgspec.Struct, frozen=True):
    """A ResourceQuota of the cluster."""

    metadata: ObjectMeta
    spec: QuotaSpec = QuotaSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsFacts:
    """What nodes that serve claims need. Of ``policies``, which change pods, ``denies`` says that a binding is there.

    ``classes`` are the DeviceClasses with the extended resource that each stands for, ``namespaces`` are those whose
    pods get claims. ``are_kept``: an extender makes the templates.
    """

    are_kept: bool = True
    slices: tuple[ResourceSlice, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    policies: tuple[PolicyFacts, ...] = ()
    namespaces: frozenset[str] = frozenset()
    quotas: tuple[Quota, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()


class LimitRangeItem(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of a LimitRange for each object of ``type``, by resource."""

    type: str = ""
    min: dict[str, str | Int] = {}
    max: dict[str, str | Int] = {}


class LimitRangeSpec(msgspec.Struct, frozen=True):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(msgspec.Struct, frozen=True):
    """A LimitRange of the cluster."""

    metadata: ObjectMeta
    spec: LimitRangeSpec = LimitRangeSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """A certificate and its end; ``problem`` if it cannot be read."""

    subject: str
    not_after: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The snapshot. ``now`` is the API server's time; ``scope`` names the one node that was asked for."""

    # No slots: what is derived from it once, for all checks, is kept in it.

    now: datetime
    server_version: str = ""
    own_version: str = ""
    scope: str | None = None
    nodes: tuple[ReportingNode, ...] = ()
    pods: tuple[SeenPod, ...] = ()
    """Pods that may ask for cards, carry a record, or run one of the programs."""
    programs: Mapping[ProgramKind, tuple[SeenPod, ...]] = field(default_factory=dict)
    plugins: tuple[PluginFacts, ...] = ()
    claims: ClaimsFacts | None = None
    """None in a cluster without nodes that serve claims."""
    extender: ExtenderFacts = ExtenderFacts()
    schedulers: tuple[SchedulerFacts, ...] = ()
    reports: tuple[NodeReport, ...] = ()
    policies: tuple[PolicyFacts, ...] = ()
    certificates: tuple[CertificateFacts, ...] = ()
    drivers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node, the drivers that publish ResourceSlices of it."""
    security_levels: Mapping[str, str] = field(default_factory=dict)
    """The Pod Security level that namespaces of our programs enforce; none for those that enforce none."""
    unread: tuple[Unread, ...] = ()

    @cached_property
    def inventories(self) -> Mapping[tuple[str, str], tuple[Inventory | None, str]]:
        """By the names of node and vendor, what each inventory says, or None and why it cannot be read."""
        return {
            (node.metadata.name, vendor.name): _decoded(node.metadata.annotations[vendor.inventory_annotation])
            for node in self.nodes
            for vendor in VENDORS
            if vendor.inventory_annotation in node.metadata.annotations
        }

    @cached_property
    def snapshots(self) -> Mapping[str, ClusterSnapshot]:
        """By each vendor's name, nodes and pods as its programs count them."""
        found = {vendor.name: ClusterSnapshot(vendor) for vendor in VENDORS}
        for snapshot in found.values():
            snapshot.count(self.nodes, self.pods)
        return found

    def knows(self, *parts: Area) -> bool:
        """Whether these parts were read completely, so that an object that is not in them does not exist."""
        return not any(each.part in parts for each in self.unread)

    @property
    def has_every_node(self) -> bool:
        """Whether ``nodes`` is complete: it is not if one node was asked for, or some could not be read."""
        return self.scope is None and self.knows(Area.NODES)

    def running(self, program: ProgramKind) -> tuple[SeenPod, ...]:
        return self.programs.get(program, ())

    def vendors(self) -> tuple[Vendor, ...]:
        """The vendors that have left a trace in this cluster."""
        return tuple(
            vendor
            for vendor in VENDORS
            if any(each.vendor == vendor for each in self.plugins)
            or any(has_label(node, vendor) or has_trace(node, vendor) for node in self.nodes)
        )

    def age_s(self, written: str | None) -> float | None:
        """Seconds since the API server wrote a time; None if there is none, or it cannot be read."""
        moment = parse_time(written)
        return None if moment is None else (self.now - moment).total_seconds()


def _decoded(inventory: str) -> tuple[Inventory | None, str]:
    try:
        return decode_inventory(inventory), ""
    except RemoteContractError as failure:
        return None, str(failure)


def parse_time(text: str | None) -> datetime | None:
    """Read a time as Kubernetes writes it; None for anything else."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def has_label(node: Node, vendor: Vendor) -> bool:
    """Whether a node's label selects it to share cards of this vendor."""
    key, _, value = vendor.node_label.partition("=")
    return node.metadata.labels.get(key) == value
