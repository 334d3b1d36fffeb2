"""The command ``gcushare-claims-controller``: imports its settings; the program itself only when it runs."""

from __future__ import annotations

from gcushare.claims_controller.claims_controller_settings import PROGRAM, ControllerSettings
from gcushare.runtime.entry import ProcessContext, run_program


def main(process: ProcessContext | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(PROGRAM, _run, log_settings=lambda settings: settings.log, process=process)


def _run(settings: ControllerSettings) -> int:
    from gcushare.claims_controller.app import run
    from gcushare.runtime.shutdown import run as run_until_shutdown

    return run_until_shutdown(lambda shutdown: run(settings, shutdown))
