"""The command ``gcushare-scheduler-extender``: imports its settings; the program itself only when it runs."""

from __future__ import annotations

from gcushare.runtime.entry import Surroundings, run_program
from gcushare.scheduler_extender.settings import PROGRAM, ExtenderSettings


def main(surroundings: Surroundings | None = None) -> int:
    """Run the program and return its exit code."""
    return run_program(PROGRAM, _run, log_settings=lambda settings: settings.log, surroundings=surroundings)


def _run(settings: ExtenderSettings) -> int:
    from gcushare.runtime.shutdown import run as run_until_shutdown
    from gcushare.scheduler_extender.app import run

    return run_until_shutdown(lambda shutdown: run(settings, shutdown))
