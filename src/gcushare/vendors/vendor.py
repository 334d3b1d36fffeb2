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
class Vendor:
    """The words of one family. ``device`` and ``DEVICE`` spellings appear in tables and reasons ("GCU", "GPU")."""

    name: str
    device_word: str
    memory_resource: str
    count_resource: str
    whole_card_resource: str
    node_label: str
    plugin_socket: str
    whole_card_socket: str
    url_prefix: str
    record: RecordKeys
    environment: EnvironmentNames
    device_nodes: DeviceNodes
    cdi_kind: str
    refused_reason: str
    """Filter's reason for a request of memory, in upstream gpushare's words; it lands in the FailedScheduling event."""
    refused_whole_reason: str
    """Filter's reason for a request of whole cards."""
    default_unit: str
    auto_units: tuple[str, ...]
    inventory_annotation: str
    """On the Node, written by the plugin: the cards and their state (``wire.inventory``)."""
    cordon_annotation: str
    """On the Node, written by an admin: comma-separated card indexes or uuids that take no new pods."""
    visible_by_uuid: bool
    """Whether the container toolkit gets cards by uuid (safe against renumbering) or by index."""
    multi_card_runtime: bool
    """Whether the container runtime of this family can hand several cards to one container."""

    @property
    def label_key(self) -> str:
        return self.node_label.split("=", 1)[0]
