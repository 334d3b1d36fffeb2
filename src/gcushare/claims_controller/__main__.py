"""The command ``gcushare-claims-controller``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import start

TYPE_CHECKING = False  # typing takes milliseconds to import
if TYPE_CHECKING:
    from gcushare.runtime.entry import Surroundings


def main(surroundings: Surroundings | None = None) -> int:
    """Run the command; returns its exit code."""
    return start("gcushare.claims_controller.command_line", "main", surroundings)


if __name__ == "__main__":
    sys.exit(main())
