"""The commands ``kubectl inspect gcushare`` and ``gpushare``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import start

TYPE_CHECKING = False  # typing takes milliseconds to import
if TYPE_CHECKING:
    from gcushare.runtime.entry import ProcessContext


def main_gcushare(process: ProcessContext | None = None) -> int:
    """Run ``kubectl-inspect-gcushare``; returns the exit code."""
    return start("gcushare.cli.inspect.command_line", "main_gcushare", process)


def main_gpushare(process: ProcessContext | None = None) -> int:
    """Run ``kubectl-inspect-gpushare``; returns the exit code."""
    return start("gcushare.cli.inspect.command_line", "main_gpushare", process)


if __name__ == "__main__":
    sys.exit(main_gcushare())
