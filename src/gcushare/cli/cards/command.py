"""The command ``gcushare cards``: settings, then the work, which is only imported once it is to begin."""

from __future__ import annotations

from pathlib import Path

from gcushare.cli.cards.settings import CARDS_PROGRAM, CardsSettings
from gcushare.runtime.entry import Surroundings, run_program
from gcushare.runtime.start import load


def main(surroundings: Surroundings | None = None, *, proc: Path | None = None) -> int:
    """Run ``gcushare cards`` and return its exit code; ``proc`` stands for /proc in tests."""
    around = surroundings or Surroundings()

    def run(settings: CardsSettings) -> int:
        return load("gcushare.cli.cards.session", "run")(settings, around, proc)

    return run_program(CARDS_PROGRAM, run, surroundings=around)
