"""``gcushare simulate``: settings, and the work when it begins."""

from __future__ import annotations

from gcushare.cli.simulate.settings import SIMULATE_PROGRAM, SimulateSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.start import load


def main(surroundings: Surroundings | None = None) -> int:
    """Run ``gcushare simulate`` and return its exit code."""
    around = surroundings or Surroundings()

    def run(settings: SimulateSettings) -> int:
        return load("gcushare.cli.simulate.session", "run")(settings, around)

    return run_program(SIMULATE_PROGRAM, run, surroundings=around)
