"""The command ``python3 -m gcushare.cli.uninstall``, which the chart runs after it has removed the device plugin.

It removes our fields from every Node in one pass, and names the Nodes whose kubelet writes one of them back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gcushare.cluster.connection import open_cluster
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, JsonObject, Selector
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, optional_setting, setting, settings, switch
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.vendors import VENDORS, VENDORS_BY_NAME, Vendor
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.objects import Node

NAME = "gcushare-uninstall"
BOTH = "both"
_ATTEMPTS = 5
"""Writes of one Node. A kubelet that is at work writes its status every ten seconds at most."""


@settings
class UninstallSettings:
    """Uninstall."""

    vendor: str = setting(
        parsers.one_of(*VENDORS_BY_NAME, BOTH),
        help="Whose resources, annotations and labels are removed. No default: another system may use those of the "
        "other vendor.",
    )
    nodes: str | None = optional_setting(
        parsers.optional(parsers.text("SELECTOR", accepted="labels as kubectl's -l takes them"), "all nodes"),
        help="Clean only the Nodes with these labels: those of another release of the plugin are left alone.",
    )
    remove_node_label: bool = switch(typed=True, help="Remove the label that selects the plugin's nodes, too.")
    kube: KubeSettings = group(KubeSettings)

    @property
    def vendors(self) -> Sequence[Vendor]:
        """Whose fields are removed."""
        return VENDORS if self.vendor == BOTH else (VENDORS_BY_NAME[self.vendor],)


PROGRAM = Program(
    name=NAME,
    summary="Remove card counts, memory and inventories of GCUShare from the Nodes after its device plugin is gone. "
    "Pods that hold cards keep running.",
    settings=UninstallSettings,
    examples=((f"{NAME} --vendor enflame", "again five minutes later, to leave nothing on the Nodes, not even a 0"),),
    notes="A kubelet goes on writing what it counts into its Node, until five minutes after the plugin has ended; then "
    "it writes 0 once. Such Nodes are named at the end.",
)


class Cleaner:
    """Cleans all Nodes of a cluster once. A second run does what is left to do."""

    def __init__(self, client: KubeClient, settings: UninstallSettings, say: Callable[[str], None]) -> None:
        self._client = client
        self._settings = settings
        self._say = say

    async def run(self) -> frozenset[str]:
        """Clean each Node; return those whose kubelet still counts our cards, and writes that back.

        Raises:
            GcushareError: the API server did not list the Nodes, or refused a write; the other Nodes are clean then.
        """
        counting: list[str] = []
        failures: list[GcushareError] = []
        for node in await self._client.list_all(NODES, Selector(labels=self._settings.nodes or "")):
            name = node.metadata.name
            try:
                if await self._clean_newest(node):
                    counting.append(name)
            except GcushareError as error:
                self._say(f"node/{name} not cleaned: {error}")
                failures.append(error)
        if failures:
            raise failures[0]
        return frozenset(counting)

    async def _clean_newest(self, node: Node) -> bool:
        """Clean a Node as it is at the moment of the write, and say whether its kubelet still counts our cards.

        A Node that is gone needs no cleaning.

        Raises:
            ConflictError: the Node changed before each of ``_ATTEMPTS`` writes.
        """
        newest, selector = [node], Selector(fields=f"metadata.name={node.metadata.name}")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return any([await self._clean(each) for each in newest])
            except NotFoundError:
                return False
            except ConflictError:
                if attempt == _ATTEMPTS:
                    raise
                newest = await self._client.list_all(NODES, selector=selector)
        return False

    async def _clean(self, node: Node) -> bool:
        vendors = self._settings.vendors
        ours = [each for each in vendors if is_ours(node, each)]
        left = find_leftovers(node, ours, with_labels=self._settings.remove_node_label)
        if left.names:
            await self._client.patch(
                NODES, node.metadata.name, left.patch(node.metadata.resource_version), subresource="status"
            )
            self._say(f"node/{node.metadata.name} cleaned: {', '.join(left.names)}")
        # A run before this one may have removed the inventory already: then nothing is allocatable of what is counted.
        counted = {each.memory_resource for each in vendors if each in ours or not is_served(node, each)}
        counted |= whole_resources(node, vendors)
        return any(node.status.capacity.get(name, "0") != "0" for name in counted)


def main(process: ProcessContext) -> int:
    """Clean every Node of the cluster of the settings; returns the exit code."""

    def say(line: str) -> None:
        process.stdout.write(line + "\n")
        process.stdout.flush()

    async def clean(found: UninstallSettings) -> frozenset[str]:
        async with open_cluster(found.kube, process.environ, program=NAME) as client:
            return await Cleaner(client, found, say).run()

    def run(found: UninstallSettings) -> int:
        remembering = sorted(asyncio.run(clean(found)))
        for name in remembering:
            say(f"node/{name}: its kubelet shows our cards, unavailable, until 5 minutes after the plugin has ended")
        if remembering:
            again = f"--vendor {found.vendor}" + (f" --nodes {found.nodes}" if found.nodes else "")
            say(f"then 0 stays there: to remove it run this again, python3 -m {__package__} {again}")
        return DONE

    return run_program(PROGRAM, run, process=process)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Our fields of one Node, without what an admin wrote there, such as cordoned cards."""

    annotations: tuple[str, ...]
    labels: tuple[str, ...]
    resources: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every key that is ours; empty if nothing is left."""
        return (*self.annotations, *self.labels, *self.resources)

    def patch(self, resource_version: str) -> Patch:
        """Remove them through the Node's status subresource, if the Node still has this version."""
        parts = (("annotations", self.annotations), ("labels", self.labels))
        found = {part: dict.fromkeys(keys) for part, keys in parts if keys}
        body: JsonObject = {"metadata": {"resourceVersion": resource_version, **found}}
        if self.resources:
            gone = dict.fromkeys(self.resources)
            body["status"] = {"capacity": gone, "allocatable": gone}
        return Patch(PatchKind.MERGE, body)


def whole_resources(node: Node, vendors: Sequence[Vendor]) -> frozenset[str]:
    """The whole-card resources that our plugin serves on a Node, by its inventory; others belong to other plugins."""
    found = set()
    for vendor in vendors:
        # Of an unreadable inventory the resource may be another plugin's, so it stays.
        with suppress(RemoteContractError):
            text = node.metadata.annotations.get(vendor.inventory_annotation)
            if text is not None and SERVES_WHOLE in decode_inventory(text).modes:
                found.add(vendor.whole_card_resource)
    return frozenset(found)


def is_ours(node: Node, vendor: Vendor) -> bool:
    """Whether a vendor's fields of a Node are ours; another system's plugin may serve the same resources.

    They are if the Node has our inventory, or if its kubelet counts none of the memory: no plugin serves it, nor did so
    within the last five minutes.
    """
    return vendor.inventory_annotation in node.metadata.annotations or not is_counted(node, vendor)


def is_counted(node: Node, vendor: Vendor) -> bool:
    """Whether the kubelet counts the vendor's memory."""
    return node.status.capacity.get(vendor.memory_resource, "0") != "0"


def is_served(node: Node, vendor: Vendor) -> bool:
    """Whether a plugin serves the vendor's memory now. Nothing is allocatable of a plugin that has ended."""
    return is_counted(node, vendor) and node.status.allocatable.get(vendor.memory_resource, "0") != "0"


def _scale_down_keys(node: Node) -> tuple[str, ...]:
    """What the extender wrote for Cluster Autoscaler; without its mark, or with another value, it is an admin's."""
    annotations = node.metadata.annotations
    is_ours = KEPT_MARK in annotations and annotations.get(SCALE_DOWN_DISABLED) == "true"
    return (KEPT_MARK, SCALE_DOWN_DISABLED) if is_ours else (KEPT_MARK,)


def find_leftovers(node: Node, vendors: Sequence[Vendor], *, with_labels: bool) -> Leftovers:
    """Find our fields of a Node, of vendors whose fields are ours there.

    The inventory says whether whole cards are ours, and goes with them. Afterwards only the 0 of a plugin that has
    ended is removed, on Nodes with our label or memory; a plugin that still runs has its 0 written again.
    """
    status = node.status.capacity.keys() | node.status.allocatable.keys()
    resources = [name for vendor in vendors for name in (vendor.count_resource, vendor.memory_resource)]
    zeros = {
        vendor.whole_card_resource
        for vendor in vendors
        if node.status.capacity.get(vendor.whole_card_resource) == "0"
        and (vendor.label_key in node.metadata.labels or vendor.memory_resource in status)
    }
    resources += sorted(whole_resources(node, vendors) | zeros)
    inventories = [vendor.inventory_annotation for vendor in vendors]
    labels = [vendor.label_key for vendor in vendors] if with_labels else []
    return Leftovers(
        annotations=tuple(key for key in (*inventories, *_scale_down_keys(node)) if key in node.metadata.annotations),
        labels=tuple(key for key in labels if key in node.metadata.labels),
        resources=tuple(name for name in resources if name in status),
    )
