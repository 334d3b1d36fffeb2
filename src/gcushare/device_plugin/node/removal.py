"""``--remove-from-node``: remove what the plugin wrote on its node, for an uninstall. Every step is repeatable.

What the admin wrote (the label, the cordons) and the records on pods stay; the memory resource itself is the kubelet's,
which sets it to 0 five minutes after the plugin is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from gcushare.core.errors import DeviceError, GcushareError, NotFoundError, Refused
from gcushare.device_plugin.kubelet.sockets import probe_plugin
from gcushare.device_plugin.node.publisher import NodePatcher
from gcushare.node.cdi import CdiSpecFile
from gcushare.runtime.safe_directory import UnsafePathError, remove_file
from gcushare.vendors import Vendor

logger = logging.getLogger(__name__)


async def remove_from_node(
    vendor: Vendor,
    node: str,
    *,
    device_plugin_dir: Path,
    cdi: CdiSpecFile,
    patcher: NodePatcher,
    report: Callable[[str], None],
) -> None:
    """Remove what the plugin leaves behind; ``report`` gets a line per step.

    Raises:
        Refused: the plugin still runs here, and would write everything again.
        GcushareError: one of the steps failed; the others were done all the same.
    """
    sockets = [device_plugin_dir / name for name in (vendor.plugin_socket, vendor.whole_card_socket)]
    for socket in sockets:
        if socket.exists() and await probe_plugin(socket) is None:
            raise Refused(f"the plugin still serves {socket} and would publish node {node} again: stop it")
    failures: list[GcushareError] = []
    try:
        report(_removal_text(cdi.path, removed=cdi.remove()))
    except GcushareError as error:
        failures.append(error)
    for socket in sockets:
        try:
            report(_removal_text(socket, removed=remove_file(socket)))
        except (OSError, UnsafePathError) as error:
            failures.append(DeviceError(f"the socket {socket} cannot be removed: {error}"))
    try:
        await patcher.patch_node_annotations(node, {vendor.inventory_annotation: None})
        await patcher.patch_node_capacity(node, {vendor.count_resource: None})
        report(f"{vendor.inventory_annotation} and {vendor.count_resource} removed from node {node}")
    except NotFoundError:
        report(f"node {node} is not in the cluster any more: nothing to remove from it")
    except GcushareError as error:
        failures.append(error)
    if failures:
        raise failures[0]


def _removal_text(path: Path, *, removed: bool) -> str:
    return f"{path} removed" if removed else f"{path} was not there"
