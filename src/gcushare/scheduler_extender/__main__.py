"""The command ``gcushare-scheduler-extender``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import entry_point

main = entry_point("gcushare.scheduler_extender.command_line", "main")
# As ``gpushare-sche-extender`` is called.
main_gpushare = entry_point("gcushare.scheduler_extender.command_line", "main_gpushare")

if __name__ == "__main__":
    sys.exit(main())
