"""The command ``python3 -m gcushare.cli.uninstall``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import entry_point

main = entry_point("gcushare.cli.uninstall.clean", "main")

if __name__ == "__main__":
    sys.exit(main())
