"""The command ``gcushare-device-plugin``."""

from __future__ import annotations

import sys

from gcushare._version import __version__
from gcushare.device_plugin.app import run_plugin
from gcushare.device_plugin.settings import PluginSettings
from gcushare.runtime.entry import run_program
from gcushare.runtime.settings import Program
from gcushare.runtime.shutdown import run

PROGRAM = Program(
    name="gcushare-device-plugin",
    summary="Share this node's accelerator cards among pods by memory: registers the memory resource with the kubelet, "
    "hands each container its card, watches the cards' health and keeps the pods' records true.",
    version=__version__,
    settings=PluginSettings,
    examples=(
        ("gcushare-device-plugin --node-name node-1", "share the cards that are found, in the vendor's own unit"),
        ("gcushare-device-plugin --memory-unit 0.1 --reserve 5%", "tenths of a GB, a twentieth of each card kept back"),
        ("gcushare-device-plugin --cards simulated:cards.yaml", "cards from a file, for trying it out"),
    ),
    notes="Endpoints on --listen-port: /healthz, /readyz, /metrics, /status (what this node believes, as JSON).",
)


def main() -> int:
    """Run the command; returns its exit code."""
    return run_program(
        PROGRAM,
        lambda settings: run(lambda shutdown: run_plugin(settings, shutdown)),
        log_settings=lambda settings: settings.log,
    )


if __name__ == "__main__":
    sys.exit(main())
