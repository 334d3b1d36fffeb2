"""The commands ``kubectl inspect gcushare`` and ``gpushare``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import entry_point

main_gcushare = entry_point("gcushare.cli.inspect.command_line", "main_gcushare")  # ``kubectl-inspect-gcushare``
main_gpushare = entry_point("gcushare.cli.inspect.command_line", "main_gpushare")  # ``kubectl-inspect-gpushare``

if __name__ == "__main__":
    sys.exit(main_gcushare())
