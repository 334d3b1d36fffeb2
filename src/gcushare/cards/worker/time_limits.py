"""How long calls into a vendor's library may take, and how long a card or a library rests after a failure."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CALL_TIMEOUT_S = 5.0
"""How long a call may take before its worker is killed. Calls read memory or a register; a second would be long."""
LONGEST_PAUSE_S = 300.0
"""The longest pause of a card's calls, and so the longest time until a recovered card is noticed."""
LONGEST_RESTART_S = 30.0
"""The longest pause before a library is opened again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolationSettings:
    """Time limits of a library's calls, and the pauses after failures; all in seconds."""

    open_timeout_s: float = 60.0
    """Opening the library: a driver without persistence mode first wakes every card, which takes seconds per card."""
    call_timeout_s: float = DEFAULT_CALL_TIMEOUT_S
    """Any other call."""
    first_rest_s: float = 10.0
    """The pause of a card's calls after the first that hung or crashed; doubles with each further one."""
    first_restart_s: float = 1.0
    """The pause after a library did not open; doubles with each further failure."""


DEFAULT_LIMITS = IsolationSettings()
