"""Ages as people read them: ``5s``, ``3m20s``, ``4h``, ``12d``.

Source: ``k8s.io/apimachinery/pkg/util/duration``.
"""

from __future__ import annotations

from gcushare_playground.apiserver.objects import JsonObject, dig, seconds_of

_UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_YEAR = 365 * _DAY


def human(seconds: float) -> str:
    """Write a duration in one or two units, as precisely as its size deserves."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 2 * _MINUTE:
        return f"{max(total, 0)}s"
    if total < 10 * _MINUTE:
        return _two(total, _MINUTE, "m", 1, "s")
    if total < 3 * _HOUR:
        return f"{total // _MINUTE}m"
    if total < 8 * _HOUR:
        return _two(total, _HOUR, "h", _MINUTE, "m")
    if total < 2 * _DAY:
        return f"{total // _HOUR}h"
    if total < 8 * _DAY:
        return _two(total, _DAY, "d", _HOUR, "h")
    if total < 2 * _YEAR:
        return f"{total // _DAY}d"
    return _two(total, _YEAR, "y", _DAY, "d") if total < 8 * _YEAR else f"{total // _YEAR}y"


def _two(total: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = total % large // small
    return f"{total // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def since(timestamp: str | None, now_s: float) -> str:
    """Write how long ago an API time was."""
    start = seconds_of(timestamp)
    return _UNKNOWN if start is None else human(now_s - start)


def age(obj: JsonObject, now_s: float) -> str:
    """Write how old an object is."""
    return since(dig(obj, "metadata", "creationTimestamp"), now_s)
