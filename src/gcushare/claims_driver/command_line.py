"""The command ``gcushare-claims-driver``: imports its settings; the program itself only when it runs."""

from __future__ import annotations

from gcushare._version import __version__
from gcushare.claims_driver.claims_driver_settings import COMPONENT, ClaimsDriverSettings
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.settings.declare import Program

PROGRAM = Program(
    name=COMPONENT,
    summary="Give this node's accelerator cards out as resource claims (Kubernetes 1.36 and later): publishes them as "
    "ResourceSlices, prepares allocated claims for the kubelet and reports the cards' health.",
    version=__version__,
    settings=ClaimsDriverSettings,
    examples=(
        ("gcushare-claims-driver --node-name node-1", "offer the cards that are found, in the vendor's own unit"),
        ("gcushare-claims-driver --memory-unit auto", "in the vendor's finest unit"),
        ("gcushare-claims-driver --cards simulated:cards.yaml", "cards from a file, for trying it out"),
    ),
    notes="Endpoints on --listen-port: /healthz, /readyz, /metrics, /status (cards and prepared claims, as JSON).",
)


def main(process: ProcessContext | None = None) -> int:
    """Run the command; returns its exit code."""

    def start(settings: ClaimsDriverSettings) -> int:
        from gcushare.claims_driver.app import run_claims_driver
        from gcushare.runtime.shutdown import run

        return run(lambda shutdown: run_claims_driver(settings, shutdown))

    return run_program(PROGRAM, start, log_settings=lambda settings: settings.log, process=process)
