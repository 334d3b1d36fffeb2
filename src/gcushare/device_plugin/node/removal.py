"""``--remove-from-node``: take back what the plugin wrote on its node, for an uninstall. Every step is repeatable.

What the admin wrote (the label, the cordons) and the records on pods stay; the memory resource itself is the kubelet's,
which sets it to 0 five minutes after the plugin is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gcushare.core.errors import DeviceError, GcushareError, NotFoundError, Refused
from gcushare.device_plugin.allocation.cdi import CdiSpecFile
from gcushare.device_plugin.kubelet.sockets import probe_plugin
from gcushare.device_plugin.ports import NodePatcher
from gcushare.runtime.safe_directory import UnsafePathError, remove_file
from gcushare.vendors import Vendor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Traces:
    """Where the plugin leaves something behind."""

    vendor: Vendor
    node: str
    sockets: tuple[Path, ...]
    cdi: CdiSpecFile


async def remove_from_node(traces: Traces, patcher: NodePatcher, report: Callable[[str], None]) -> None:
    """Remove every trace; ``report`` gets a line per step.

    Raises:
        Refused: the plugin still runs here, and would write everything again.
        GcushareError: one of the steps failed; the others were done all the same.
    """
    for socket in traces.sockets:
        if socket.exists() and await probe_plugin(socket) is None:
            raise Refused(f"the plugin still serves {socket} and would publish node {traces.node} again: stop it")
    failures: list[GcushareError] = []
    try:
        report(_local_words(traces.cdi.path, removed=traces.cdi.remove()))
    except GcushareError as error:
        failures.append(error)
    for socket in traces.sockets:
        try:
            report(_local_words(socket, removed=remove_file(socket)))
        except (OSError, UnsafePathError) as error:
            failures.append(DeviceError(f"the socket {socket} cannot be removed: {error}"))
    try:
        await patcher.patch_annotations({traces.vendor.inventory_annotation: None})
        await patcher.patch_capacity({traces.vendor.count_resource: None})
        report(
            f"{traces.vendor.inventory_annotation} and {traces.vendor.count_resource} removed from node {traces.node}"
        )
    except NotFoundError:
        report(f"node {traces.node} is not in the cluster any more: nothing to remove from it")
    except GcushareError as error:
        failures.append(error)
    if failures:
        raise failures[0]


def _local_words(path: Path, *, removed: bool) -> str:
    return f"{path} removed" if removed else f"{path} was not there"
