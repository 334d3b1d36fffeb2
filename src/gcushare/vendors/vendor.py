"""The differences between vendors on the wire: names only, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKeys:
    """Annotation keys of a pod's record. They must equal the manual's and upstream's, because scripts read them."""

    card_index: str
    card_units: str
    pod_units: str
    assigned: str
    assign_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentNames:
    """Environment variables of a container: its visible cards, and soft limits in units.

    ``hidden`` is the value of ``visible`` with which the vendor's container toolkit shows no card, whatever the image
    says; "" if it has none.
    """

    visible: str
    hidden: str = ""
    card_index: str
    card_units: str
    pod_units: str
    container_units: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNodes:
    """Device files. ``card`` is a format string with ``{index}``; every container needs the ``control`` files."""

    card: str
    control: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryBinding:
    """The vendor's management library. ``name`` is its value of ``--cards``; ``module`` has ``create_library``.

    The module is imported only in the process that opens the library (``gcushare.cards.libraries``).
    """

    name: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectForm:
    """The form of the inspect document (``wire.documents.inspect``). The keys of amounts contain the device word.

    ``cards`` is the key of a node's list of cards. ``is_detailed``: the document also has the available amounts, and
    the uid and creation time of each pod.
    """

    cards: str = "devices"
    is_detailed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNames:
    """The vendor's names in Dynamic Resource Allocation, for nodes that serve cards as claims.

    ``driver`` is used in ResourceSlices, attributes and allocation results, and as the folder of the plugin's socket.
    ``memory_class`` and ``whole_class`` are the DeviceClasses of memory shares and of whole cards.
    ``template_prefix`` begins the names of the ResourceClaimTemplates that we create (``wire.dra.claim_names``).
    ``extender_resource`` is in pods with claims for which kube-scheduler is to call the extender. No node lists it:
    kube-scheduler is configured to ignore it, and kubelets ignore extended resources that their node does not list.
    """

    driver: str
    memory_class: str
    whole_class: str
    template_prefix: str
    extender_resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """Everything that differs between two vendors. docs/architecture.md describes how to add one."""

    name: str
    """The value of ``--vendor``, in metric labels and in the names of Kubernetes objects."""
    device_word: str
    """The name of a card in tables, reasons and the inspect document's keys: GCU, GPU."""
    kubectl_plugin: str
    """``kubectl inspect NAME``."""
    memory_resource: str
    count_resource: str
    pods_per_count: int
    """The count that a Node offers per card: how many pods that request ``count_resource`` fit on each card."""
    whole_card_resource: str
    node_label: str
    plugin_socket: str
    whole_card_socket: str
    """The names of the plugin's sockets in the kubelet's folder, one per resource."""
    url_prefix: str
    """The extender's path for this vendor, before ``/filter``, ``/bind`` and ``/inspect``."""
    library: LibraryBinding
    claims: ClaimNames
    inspect: InspectForm = InspectForm()
    record: RecordKeys
    environment: EnvironmentNames
    device_nodes: DeviceNodes
    cdi_kind: str
    refused_reason: str
    """Filter's reason for a memory request, as in upstream gpushare. FailedScheduling events show it."""
    refused_whole_reason: str
    """Filter's reason for a request of whole cards."""
    default_unit: str
    """The memory unit of requests (a name in ``core.units``), unless the plugin is set to another one."""
    auto_units: tuple[str, ...]
    """The units that ``--memory-unit auto`` chooses from, the coarsest first."""
    inventory_annotation: str
    """On the Node, written by the plugin: the cards and their state (``wire.nodes``)."""
    cordon_annotation: str
    """On the Node, written by an admin: the indexes or uuids of cards that take no new pods, comma-separated."""
    visible_by_uuid: bool
    """Whether the container toolkit gets cards by uuid (which survives renumbering) or by index."""
    multi_card_runtime: bool
    """Whether the container runtime supports several cards in one container."""
    plugin_environment: tuple[tuple[str, str], ...]
    """Environment variables of the plugin's own container in the chart, for the container toolkit to add the cards."""
    tool_namespaces: tuple[str, ...] = ()
    """Where the vendor's own programs run, which may see cards without asking for them."""
    name_suffix: str
    """Suffix of the names of the chart's objects that exist once per vendor."""

    @property
    def label_key(self) -> str:
        """The key of the label that makes the plugin run on a node; its value is ``true``."""
        return self.node_label.split("=", 1)[0]
