"""The command ``python3 -m gcushare.cli.uninstall``, which the chart runs after it has removed the device plugin.

It removes our fields from every Node. On request it waits until the kubelets have forgotten the resource.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gcushare._version import __version__
from gcushare.cluster.connection import open_cluster
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.errors import ConflictError, NotFoundError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock, SystemClock
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, JsonObject, Selector
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, group, setting, settings
from gcushare.runtime.settings.kubernetes import KubeSettings
from gcushare.vendors import VENDORS, VENDORS_BY_NAME, Vendor
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.objects import Node

NAME = "gcushare-uninstall"
BOTH = "both"
POLL_S = 5.0
"""Half of a kubelet's status interval."""
_ATTEMPTS = 5
"""Writes of one Node in a round. A kubelet that is at work writes its status every ten seconds at most."""


@settings
class UninstallSettings:
    """Uninstall."""

    vendor: str = setting(
        parsers.one_of(*VENDORS_BY_NAME, BOTH),
        help="Whose resources, annotations and labels are removed. No default: another system may use those of the "
        "other vendor.",
    )
    remove_node_label: bool = setting(
        parsers.boolean(), default=False, typed=True, help="Remove the label that selects the plugin's nodes, too."
    )
    wait_for_kubelet: float = setting(
        parsers.duration_s(0, 3600),
        default=0.0,
        help="How long to wait until every kubelet has forgotten the resource and to remove the 0 that it leaves. A "
        "kubelet forgets five minutes after the plugin has ended. 0s does not wait.",
    )
    kube: KubeSettings = group(KubeSettings)

    @property
    def vendors(self) -> Sequence[Vendor]:
        """Whose fields are removed."""
        return VENDORS if self.vendor == BOTH else (VENDORS_BY_NAME[self.vendor],)


PROGRAM = Program(
    name=NAME,
    summary="Remove card counts, memory and inventories of GCUShare from the Nodes after its device plugin is gone. "
    "Pods that hold cards keep running.",
    version=__version__,
    settings=UninstallSettings,
    examples=((f"{NAME} --vendor enflame --wait-for-kubelet 6m", "leave nothing on the Nodes, not even a 0"),),
)


class Cleaner:
    """Cleans all Nodes of a cluster. A second run does what is left to do."""

    def __init__(
        self, client: KubeClient, settings: UninstallSettings, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._say = say
        self._remembering: set[str] = set()
        """Nodes whose kubelet still counts our cards."""
        self._whole: dict[str, frozenset[str]] = {}
        """Our whole-card resources by the Node's uid, kept because the inventory that lists them is removed."""
        self._ours: set[tuple[str, str]] = set()
        """Uid of the Node and vendor of every inventory that was there."""
        self._removed: set[tuple[str, str]] = set()
        """Uid of the Node and annotation of every inventory that this run removed."""
        self._installed_again: set[str] = set()
        """Names of Nodes where a plugin published an inventory after it was removed."""

    async def run(self) -> frozenset[str]:
        """Clean until no kubelet writes anything back, or until the time is over; return the Nodes where one still may.

        Raises:
            GcushareError: the API server refused a request or did not answer.
        """
        deadline = self._clock.monotonic() + self._settings.wait_for_kubelet
        while True:
            nodes = await self._client.list_all(NODES)
            self._remembering.intersection_update(node.metadata.name for node in nodes)
            for node in nodes:
                await self._clean_newest(node)
            if not self._remembering or self._clock.monotonic() >= deadline:
                return frozenset(self._remembering)
            await self._clock.sleep(POLL_S)

    async def _clean_newest(self, node: Node) -> None:
        """Clean a Node as it is at the moment of the write; a Node that is gone needs no cleaning.

        Raises:
            ConflictError: the Node changed before each of ``_ATTEMPTS`` writes.
        """
        newest, selector = [node], Selector(fields=f"metadata.name={node.metadata.name}")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                for each in newest:
                    await self._clean(each)
                return
            except NotFoundError:
                return
            except ConflictError:
                if attempt == _ATTEMPTS:
                    raise
                newest = await self._client.list_all(NODES, selector=selector)

    async def _clean(self, node: Node) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        if name in self._installed_again:
            return
        if any((uid, key) in self._removed for key in node.metadata.annotations):
            self._installed_again.add(name)
            self._remembering.discard(name)
            self._say(f"node/{name}: a device plugin published its cards again, so the node is left as it is")
            return
        whole = self._whole[uid] = self._whole.get(uid, frozenset()) | whole_resources(node, self._settings.vendors)
        vendors = self._find_ours(node)
        # An interrupted run may have removed the inventory already. The resource counts as ours again when the kubelet
        # has forgotten it.
        awaited = [each for each in self._settings.vendors if each in vendors or not is_served(node, each)]
        remembered = is_remembered(node, awaited, whole)
        if remembered and name in self._remembering:
            return  # removed once already; the kubelet wrote it back and would do so again
        left = find_leftovers(node, vendors, with_labels=self._settings.remove_node_label, whole=whole)
        if left.names:
            # One write removes all: without the inventory, a later run could not find out which resources are ours.
            patch = left.patch(node.metadata.resource_version)
            await self._client.patch(NODES, name, patch, subresource="status")
            self._removed |= {(uid, key) for key in left.annotations}
            self._say(f"node/{name} cleaned: {', '.join(left.names)}")
        if remembered is not None:
            (self._remembering.add if remembered else self._remembering.discard)(name)

    def _find_ours(self, node: Node) -> list[Vendor]:
        """The vendors whose fields of this Node are ours; another system's plugin may serve the same resources.

        Fields are ours if the Node has or had our inventory, or if its kubelet counts none of the vendor's memory.
        """
        uid, vendors = node.metadata.uid, self._settings.vendors
        self._ours |= {(uid, each.name) for each in vendors if each.inventory_annotation in node.metadata.annotations}
        return [each for each in vendors if (uid, each.name) in self._ours or not is_counted(node, each)]


def main(process: ProcessContext | None = None) -> int:
    """Clean every Node of the cluster of the settings; returns the exit code."""
    process = process or ProcessContext()

    def say(line: str) -> None:
        process.stdout.write(line + "\n")
        process.stdout.flush()

    async def clean(found: UninstallSettings) -> frozenset[str]:
        async with open_cluster(found.kube, process.environ, program=NAME) as client:
            return await Cleaner(client, found, SystemClock(), say).run()

    def run(found: UninstallSettings) -> int:
        for name in sorted(asyncio.run(clean(found))):
            say(f"node/{name}: its kubelet shows the memory, unavailable, until 5 minutes after the plugin has ended")
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


def is_counted(node: Node, vendor: Vendor) -> bool:
    """Whether the kubelet counts the vendor's memory: a plugin serves it, or did so within the last five minutes."""
    return node.status.capacity.get(vendor.memory_resource, "0") != "0"


def is_served(node: Node, vendor: Vendor) -> bool:
    """Whether a plugin serves the vendor's memory now. Nothing is allocatable of a plugin that has ended."""
    return is_counted(node, vendor) and node.status.allocatable.get(vendor.memory_resource, "0") != "0"


def find_leftovers(
    node: Node, vendors: Sequence[Vendor], *, with_labels: bool, whole: Collection[str] = ()
) -> Leftovers:
    """Find our fields of a Node; ``whole``: the whole-card resources that are ours there."""
    status = node.status.capacity.keys() | node.status.allocatable.keys()
    resources = [name for vendor in vendors for name in (vendor.count_resource, vendor.memory_resource)]
    resources += sorted(whole)
    inventories = [vendor.inventory_annotation for vendor in vendors]
    labels = [vendor.label_key for vendor in vendors] if with_labels else []
    return Leftovers(
        annotations=tuple(key for key in inventories if key in node.metadata.annotations),
        labels=tuple(key for key in labels if key in node.metadata.labels),
        resources=tuple(name for name in resources if name in status),
    )


def is_remembered(node: Node, vendors: Sequence[Vendor], whole: Collection[str] = ()) -> bool | None:
    """Whether the kubelet still counts our cards; None if the Node does not list them.

    A kubelet writes what it counts back with its next status update. Five minutes after the plugin has ended it forgets
    the resource and writes 0 once.
    """
    ours = [*(vendor.memory_resource for vendor in vendors), *whole]
    amounts = [node.status.capacity[name] for name in ours if name in node.status.capacity]
    return None if not amounts else any(amount != "0" for amount in amounts)
