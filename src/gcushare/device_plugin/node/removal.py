"""``--remove-from-node``: remove what the plugin wrote on its node, for an uninstall. Every step is repeatable.

What the admin wrote (the label, the cordons) and the records on pods stay; the memory resource itself is the kubelet's,
which sets it to 0 five minutes after the plugin is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from gcushare.core.errors import DeviceError, GcushareError, NotFoundError, Refused
from gcushare.device_plugin.kubelet.sockets import probe_plugin
from gcushare.device_plugin.node.publisher import NodePatcher
from gcushare.device_plugin.plugin_settings import KubeletSettings
from gcushare.node.cdi import CdiSpecFile
from gcushare.runtime.safe_directory import UnsafePathError, remove_file
from gcushare.vendors import Vendor


async def remove_from_node(kubelet: KubeletSettings, vendor: Vendor, patcher: NodePatcher, stdout: TextIO) -> None:
    """Remove what the plugin leaves behind; prints a line per step.

    Raises:
        Refused: the plugin still runs here, and would write everything again.
        GcushareError: one of the steps failed; the others were done all the same.
    """
    node = kubelet.node_name
    sockets = [kubelet.device_plugin_dir / name for name in (vendor.plugin_socket, vendor.whole_card_socket)]
    for socket in sockets:
        if socket.exists() and await probe_plugin(socket) is None:
            raise Refused(f"the plugin still serves {socket} and would publish node {node} again: stop it")
    cdi = CdiSpecFile(kubelet.cdi_dir, vendor)
    failures: list[GcushareError] = []

    def report(path: Path, *, removed: bool) -> None:
        stdout.write(f"{path} removed\n" if removed else f"{path} was not there\n")

    try:
        report(cdi.path, removed=cdi.remove())
    except GcushareError as error:
        failures.append(error)
    for socket in sockets:
        try:
            report(socket, removed=remove_file(socket))
        except (OSError, UnsafePathError) as error:
            failures.append(DeviceError(f"the socket {socket} cannot be removed: {error}"))
    try:
        await patcher.patch_node_annotations(node, {vendor.inventory_annotation: None})
        await patcher.patch_node_capacity(node, {vendor.count_resource: None})
        stdout.write(f"{vendor.inventory_annotation} and {vendor.count_resource} removed from node {node}\n")
    except NotFoundError:
        stdout.write(f"node {node} is not in the cluster any more: nothing to remove from it\n")
    except GcushareError as error:
        failures.append(error)
    if failures:
        raise failures[0]
