"""The command ``gcushare-device-plugin``: imports its settings; the program itself only when it runs."""

from __future__ import annotations

from collections.abc import Callable

from gcushare._version import __version__
from gcushare.core.errors import GcushareError
from gcushare.device_plugin.settings import COMPONENT, PluginSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.exit_codes import DONE, exit_code_for
from gcushare.runtime.settings.declare import Program
from gcushare.runtime.settings.groups import LogLevel, LogSettings
from gcushare.vendors import VENDORS_BY_NAME

PROGRAM = Program(
    name=COMPONENT,
    summary="Share this node's accelerator cards among pods by memory: registers the memory resource with the kubelet, "
    "hands each container its card, watches the cards' health and keeps the pods' records true.",
    version=__version__,
    settings=PluginSettings,
    examples=(
        ("gcushare-device-plugin --node-name node-1", "share the cards that are found, in the vendor's own unit"),
        ("gcushare-device-plugin --memory-unit 0.1 --reserve 5%", "tenths of a GB, a twentieth of each card kept back"),
        ("gcushare-device-plugin --mode both", "memory of cards and whole cards, from the same cards"),
        ("gcushare-device-plugin --cards simulated:cards.yaml", "cards from a file, for trying it out"),
        ("gcushare-device-plugin --status", "what the plugin that runs here believes"),
        ("gcushare-device-plugin --remove-from-node", "take back what it wrote, after it was stopped for good"),
    ),
    notes="Endpoints on --listen-port: /healthz, /readyz, /metrics, /status (what this node believes, as JSON).",
)


def main(surroundings: Surroundings | None = None) -> int:
    """Run the command; returns its exit code."""
    around = surroundings or Surroundings()

    def start(settings: PluginSettings) -> int:
        if settings.actions.status:
            return _answer(around, lambda: _print_status(settings, around))
        if settings.actions.remove_from_node:
            return _answer(around, lambda: _remove(settings, around))
        from gcushare.device_plugin.app import run_plugin
        from gcushare.runtime.shutdown import run

        return run(lambda shutdown: run_plugin(settings, shutdown))

    return run_program(PROGRAM, start, log_settings=_log_settings, surroundings=around)


def _log_settings(settings: PluginSettings) -> LogSettings:
    """A command that answers on stdout writes no log file beside that of the plugin that runs."""
    if settings.actions.status or settings.actions.remove_from_node:
        return LogSettings(log_dir=None, log_level=LogLevel.ERROR)
    return settings.log


def _answer(around: Surroundings, work: Callable[[], int]) -> int:
    """Tell an error to the person who asked: the log's form is for the plugin that runs."""
    try:
        return work()
    except GcushareError as error:
        around.stderr.write(f"error: {error}\n")
        return exit_code_for(error)


def _print_status(settings: PluginSettings, around: Surroundings) -> int:
    from gcushare.device_plugin.print_status import print_status

    return print_status(settings.serve, around.stdout)


def _remove(settings: PluginSettings, around: Surroundings) -> int:
    import asyncio

    from gcushare.device_plugin.allocation.cdi import CdiSpecFile
    from gcushare.device_plugin.kubernetes import ApiPatcher
    from gcushare.device_plugin.node.removal import Traces, remove_from_node
    from gcushare.kube.client import KubeClient
    from gcushare.kube.connection.config import find_api_server

    kubelet, vendor = settings.kubelet, VENDORS_BY_NAME[settings.cards.vendor.value]
    traces = Traces(
        vendor=vendor,
        node=kubelet.node_name,
        sockets=tuple(kubelet.device_plugin_dir / name for name in (vendor.plugin_socket, vendor.whole_card_socket)),
        cdi=CdiSpecFile(kubelet.cdi_dir, vendor),
    )

    def write(line: str) -> None:
        around.stdout.write(f"{line}\n")

    async def remove() -> int:
        config = find_api_server(settings.kube.kubeconfig, settings.kube.kube_context)
        async with KubeClient(config, program=COMPONENT) as client:
            await remove_from_node(traces, ApiPatcher(client, kubelet.node_name), write)
        return DONE

    return asyncio.run(remove())
