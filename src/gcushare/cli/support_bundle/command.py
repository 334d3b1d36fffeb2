"""The command ``gcushare support-bundle``: settings, then the work, which is only imported once it is to begin."""

from __future__ import annotations

from gcushare.cli.doctor.settings import BUNDLE_PROGRAM, BundleSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.start import load


def main(surroundings: Surroundings | None = None) -> int:
    """Run ``gcushare support-bundle`` and return its exit code."""
    around = surroundings or Surroundings()

    def run(settings: BundleSettings) -> int:
        return load("gcushare.cli.support_bundle.bundle", "run")(settings, around)

    return run_program(BUNDLE_PROGRAM, run, surroundings=around)
