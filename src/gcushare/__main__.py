"""The command ``gcushare``."""

from __future__ import annotations

import sys

from gcushare.runtime.start import entry_point

main = entry_point("gcushare.cli.subcommands", "main")

if __name__ == "__main__":
    sys.exit(main())
