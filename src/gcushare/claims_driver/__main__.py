"""The command ``gcushare-claims-driver``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import start

TYPE_CHECKING = False  # typing takes milliseconds to import
if TYPE_CHECKING:
    from gcushare.runtime.entry import ProcessContext


def main(process: ProcessContext | None = None) -> int:
    """Run the command; returns its exit code."""
    return start("gcushare.claims_driver.claims_driver_settings", "main", process)


if __name__ == "__main__":
    sys.exit(main())
