"""The command ``gcushare-config-manager``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import entry_point

main = entry_point("gcushare.config_manager.command_line", "main")

if __name__ == "__main__":
    sys.exit(main())
