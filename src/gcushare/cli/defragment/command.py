"""``gcushare defragment``: settings, and the work when it begins."""

from __future__ import annotations

from gcushare.cli.defragment.settings import DEFRAGMENT_PROGRAM, DefragmentSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.start import load


def main(surroundings: Surroundings | None = None) -> int:
    """Run ``gcushare defragment`` and return its exit code."""
    around = surroundings or Surroundings()

    def run(settings: DefragmentSettings) -> int:
        return load("gcushare.cli.defragment.session", "run")(settings, around)

    return run_program(DEFRAGMENT_PROGRAM, run, surroundings=around)
