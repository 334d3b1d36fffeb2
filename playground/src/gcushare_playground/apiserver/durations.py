"""Ages as people read them: ``5s``, ``3m``, ``4h``, ``12d``."""

from __future__ import annotations

from gcushare_playground.apiserver.objects import JsonObject, dig, seconds_of

_UNKNOWN = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def human(seconds: float) -> str:
    """Write a duration in its largest unit."""
    total = max(int(seconds), 0)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if total >= 2 * size:
            return f"{total // size}{unit}"
    return f"{total}s"


def since(timestamp: str | None, now_s: float) -> str:
    """Write how long ago an API time was."""
    start = seconds_of(timestamp)
    return _UNKNOWN if start is None else human(now_s - start)


def age(obj: JsonObject, now_s: float) -> str:
    """Write how old an object is."""
    return since(dig(obj, "metadata", "creationTimestamp"), now_s)
