"""The command ``gcushare doctor``: settings, then the examination, which is only imported once it is to be made."""

from __future__ import annotations

import sys
from typing import TextIO

from gcushare.cli.doctor.settings import DOCTOR_PROGRAM, DoctorSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.start import load


def main(surroundings: Surroundings | None = None, *, stdin: TextIO | None = None) -> int:
    """Run ``gcushare doctor`` and return its exit code."""
    around = surroundings or Surroundings()

    def run(settings: DoctorSettings) -> int:
        return load("gcushare.cli.doctor.examination", "run")(settings, around, stdin or sys.stdin)

    return run_program(DOCTOR_PROGRAM, run, surroundings=around)
