"""The command ``gcushare-device-plugin``: imports its settings; the program itself only when it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from gcushare.core.errors import DeviceError, GcushareError, NotFoundError, Refused
from gcushare.device_plugin.plugin_settings import COMPONENT, PluginSettings
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE, FAILED, exit_code_for
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.log import LogLevel, LogSettings
from gcushare.runtime.settings.old_flags import GLOG_FLAGS, OldFlag, left_out, refused, refused_switch

PROGRAM = Program(
    name=COMPONENT,
    summary="Share this node's accelerator cards among pods by memory: registers the memory resource with the kubelet, "
    "hands each container its card, watches the cards' health and keeps the pods' records true. On a node with the "
    "label gcushare.io/serve=claims it gives the cards out as resource claims (Kubernetes 1.36 and later).",
    settings=PluginSettings,
    examples=(
        ("gcushare-device-plugin --node-name node-1", "share the cards that are found, in the vendor's own unit"),
        ("gcushare-device-plugin --memory-unit 0.1 --reserve 5%", "tenths of a GB, a twentieth of each card kept back"),
        ("gcushare-device-plugin --mode both", "memory of cards and whole cards, from the same cards"),
        ("gcushare-device-plugin --cards simulated:cards.yaml", "cards from a file, for trying it out"),
        ("gcushare-device-plugin --status", "the state of the plugin that runs here"),
        ("gcushare-device-plugin --remove-from-node", "remove what it wrote, after it was stopped for good"),
    ),
    exit_status={FAILED: "Refused or failed; with --status, the plugin reports a problem."},
    notes="Endpoints on --listen-port: /healthz, /readyz, /metrics, /status (the state of this node, as JSON).",
)


def main(process: ProcessContext) -> int:
    """Run the command; returns its exit code."""

    def start(settings: PluginSettings) -> int:
        if settings.actions.status:
            from gcushare.device_plugin.reporting.status_text import print_status

            return _answer(process, lambda: print_status(settings.serve, process.stdout))
        if settings.actions.remove_from_node:
            import asyncio

            return _answer(process, lambda: asyncio.run(_remove_from_node(settings, process.stdout)))
        from gcushare.device_plugin.program import run_plugin
        from gcushare.runtime.shutdown import run

        return run(lambda shutdown: run_plugin(settings, shutdown))

    return run_program(PROGRAM, start, log_settings=_log_settings, process=process, old_flags=OLD_FLAGS)


def main_gpushare(process: ProcessContext) -> int:
    """Run it as ``gpushare-device-plugin-v2``: NVIDIA cards, with that program's flags; returns the exit code."""
    environ = dict(process.environ)
    # Its manifests name a kubeconfig of the host that is not mounted; it then used the pod's service account.
    named = environ.get("KUBECONFIG", "")
    if named and not Path(named).exists():
        process.stderr.write(f"note: KUBECONFIG={named} is left out: there is no such file here\n")
        del environ["KUBECONFIG"]
    return main(replace(process, argv=("--vendor=aliyun", *process.argv), environ=environ))


def _log_settings(settings: PluginSettings) -> LogSettings:
    """A command that answers on stdout writes no log file: the running plugin has one there."""
    if settings.actions.status or settings.actions.remove_from_node:
        return LogSettings(log_dir=None, log_level=LogLevel.ERROR)
    return settings.log


def _answer(process: ProcessContext, work: Callable[[], int]) -> int:
    """Show an error to the person who asked: the log's form is for the plugin that runs."""
    try:
        return work()
    except GcushareError as error:
        process.stderr.write(f"error: {error}\n")
        return exit_code_for(error)


async def _remove_from_node(settings: PluginSettings, stdout: TextIO) -> int:
    """Remove what the plugin wrote on its node, for an uninstall; prints a line per step. Every step is repeatable.

    What the admin wrote (the label, the cordons) and the records on pods stay; the memory resource itself is the
    kubelet's, which sets it to 0 five minutes after the plugin is gone.

    Raises:
        Refused: the plugin still runs here, and would write everything again.
        GcushareError: one of the steps failed; the others were done all the same.
    """
    from gcushare.cluster.connection import open_cluster
    from gcushare.device_plugin.kubelet.sockets import UnixSockets
    from gcushare.node.cdi import CdiSpecFile
    from gcushare.runtime.safe_directory import UnsafePathError, remove_file

    kubelet, vendor, node = settings.kubelet, settings.cards.vendor, settings.kubelet.node_name
    sockets = [kubelet.device_plugin_dir / name for name in (vendor.plugin_socket, vendor.whole_card_socket)]
    for socket in sockets:
        if socket.exists() and await UnixSockets().probe(socket) is None:
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
        async with open_cluster(settings.kube, program=COMPONENT) as client:
            await client.patch_node_annotations(node, {vendor.inventory_annotation: None})
            await client.patch_node_capacity(node, {vendor.count_resource: None})
        stdout.write(f"{vendor.inventory_annotation} and {vendor.count_resource} removed from node {node}\n")
    except NotFoundError:
        stdout.write(f"node {node} is not in the cluster any more: nothing to remove from it\n")
    except GcushareError as error:
        failures.append(error)
    if failures:
        raise failures[0]
    return DONE


_NOT_THE_KUBELETS_PORT = (
    "pods come from the API server's watch and from podresources, the kubelet's own port is not asked"
)

OLD_FLAGS: Mapping[str, OldFlag] = {
    **GLOG_FLAGS,
    "mps": refused_switch(
        "say --memory-limit mps, which also limits each process to its grant, and leave this flag out"
    ),
    "mps-pipe": left_out("the folder of MPS is --mps-root"),
    "health-check": left_out("the cards' health is watched always", is_switch=True),
    "query-kubelet": left_out(_NOT_THE_KUBELETS_PORT, is_switch=True),
    "slice-count": refused(
        "cards are shared by memory, not in slices; say with --memory-unit what 1 in a pod's request stands for"
    ),
} | {
    name: left_out(_NOT_THE_KUBELETS_PORT)
    for name in ("kubelet-address", "kubelet-port", "client-cert", "client-key", "token", "timeout")
}
"""Flags of theirs that we do not have under the same name, as we have ``--memory-unit``."""
