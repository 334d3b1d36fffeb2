"""What differs between two families of accelerators on the wire: names only, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKeys:
    """Annotation keys of the record on a pod: exactly the manual's and upstream gpushare's, whose scripts read them."""

    card_index: str
    card_units: str
    pod_units: str
    assigned: str
    assign_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentNames:
    """Variables a container is given: the card it sees, and soft limits in units or bytes."""

    visible: str
    card_index: str
    card_units: str
    pod_units: str
    container_units: str
    container_bytes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNodes:
    """Device files: ``card`` is a format string with ``{index}``; every container needs the ``control`` nodes."""

    card: str
    control: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryBinding:
    """The vendor's management library. ``name`` is its word in ``--cards``; ``module`` has ``create_library``.

    The module is imported only in the process that opens the library (``gcushare.cards.libraries``).
    """

    name: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectForm:
    """How the inspect document is written (``wire.documents.inspect``): amounts are ``total`` and the device word.

    ``cards``: the key of a node's list of cards. ``is_detailed``: with what is available beside what is used, and with
    the uid and creation of each pod.
    """

    cards: str = "devices"
    is_detailed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """Names of this family in Dynamic Resource Allocation, for nodes that serve cards as claims.

    ``driver``: in ResourceSlices, attributes and allocation results, and the socket's folder beside the kubelet's.
    ``memory_class`` and ``whole_class``: the DeviceClasses of memory shares and of whole cards.
    ``template_prefix``: what the names of the ResourceClaimTemplates that we make begin with (``core.claims``).
    """

    driver: str
    memory_class: str
    whole_class: str
    template_prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """All that differs between two families of cards. A new one is described in docs/architecture.md."""

    name: str
    """Its word in ``--vendor``, in metrics' labels and in the names of Kubernetes objects."""
    device_word: str
    """A card in tables, in reasons and in the inspect document's keys: GCU, GPU."""
    kubectl_plugin: str
    """``kubectl inspect NAME``."""
    memory_resource: str
    count_resource: str
    pods_per_count: int
    """Pods that may ask for each card by ``count_resource`` before its number on the Node keeps another one out."""
    whole_card_resource: str
    node_label: str
    plugin_socket: str
    whole_card_socket: str
    """The names of the plugin's sockets beside the kubelet's, one per resource."""
    url_prefix: str
    """Where the extender serves this family: the path before ``/filter``, ``/bind`` and ``/inspect``."""
    library: LibraryBinding
    claims: ClaimNames
    inspect: InspectForm = InspectForm()
    record: RecordKeys
    environment: EnvironmentNames
    device_nodes: DeviceNodes
    cdi_kind: str
    refused_reason: str
    """Filter's reason for a request of memory, in upstream gpushare's words; it lands in the FailedScheduling event."""
    refused_whole_reason: str
    """Filter's reason for a request of whole cards."""
    default_unit: str
    """What 1 in a pod's request stands for, unless the plugin is given another unit (names of ``core.units``)."""
    auto_units: tuple[str, ...]
    """The units among which ``--memory-unit auto`` chooses, the coarsest first."""
    inventory_annotation: str
    """On the Node, written by the plugin: the cards and their state (``wire.inventory``)."""
    cordon_annotation: str
    """On the Node, written by an admin: comma-separated card indexes or uuids that take no new pods."""
    visible_by_uuid: bool
    """Whether the container toolkit gets cards by uuid (safe against renumbering) or by index."""
    multi_card_runtime: bool
    """Whether the container runtime of this family can hand several cards to one container."""
    plugin_environment: tuple[tuple[str, str], ...]
    """Variables of the plugin's own container in the chart: what makes the container toolkit give it the cards."""
    name_suffix: str
    """Behind the names of the chart's objects that exist once per vendor."""

    @property
    def label_key(self) -> str:
        """The key of the label with which an admin has the plugin run on a node; its value is ``true``."""
        return self.node_label.split("=", 1)[0]
