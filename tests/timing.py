"""How the time of a call grows with its input."""

from __future__ import annotations

import time
from collections.abc import Callable


def assert_no_square(call: Callable[[int], object], small: int) -> None:
    """Check that an input of eight times the size takes nowhere near 64 times the processor's time."""

    def took_s(size: int) -> float:
        taken = []
        for _ in range(3):
            started = time.process_time()
            call(size)
            taken.append(time.process_time() - started)
        return max(min(taken), 20e-6)  # what is shorter is only the clock's noise

    assert took_s(8 * small) < 30 * took_s(small)
