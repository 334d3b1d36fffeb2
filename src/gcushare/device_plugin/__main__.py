"""The command ``gcushare-device-plugin``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import start

TYPE_CHECKING = False  # typing takes milliseconds to import
if TYPE_CHECKING:
    from gcushare.runtime.entry import ProcessContext


def main(process: ProcessContext | None = None) -> int:
    """Run the command; returns its exit code."""
    return start("gcushare.device_plugin.command_line", "main", process)


def main_gpushare(process: ProcessContext | None = None) -> int:
    """Run it as ``gpushare-device-plugin-v2`` is called; returns the exit code."""
    return start("gcushare.device_plugin.command_line", "main_gpushare", process)


if __name__ == "__main__":
    sys.exit(main())
