"""What every test run needs, wherever it was started from."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in the background deaf to Ctrl-C, and programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
