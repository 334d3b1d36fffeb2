"""The command ``gcushare-device-plugin``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import entry_point

main = entry_point("gcushare.device_plugin.command_line", "main")
# As ``gpushare-device-plugin-v2`` is called.
main_gpushare = entry_point("gcushare.device_plugin.command_line", "main_gpushare")

if __name__ == "__main__":
    sys.exit(main())
