"""A smaller input with which the same is wrong."""

from __future__ import annotations

from collections.abc import Callable

ATTEMPTS = 2000


def shrunk(body: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Take away what need not be there, in halves, quarters and so on, then single bytes, then make the rest plain.

    ``fails`` is asked at most ``ATTEMPTS`` times.
    """
    left = ATTEMPTS

    def is_enough(smaller: bytes) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(smaller)

    size = len(body) // 2
    while size and left > 0:
        start = 0
        while start < len(body) and left > 0:
            smaller = body[:start] + body[start + size :]
            if is_enough(smaller):
                body = smaller
            else:
                start += size
        size //= 2
    for position in range(len(body)):
        plainer = body[:position] + b"0" + body[position + 1 :]
        if left > 0 and plainer != body and is_enough(plainer):
            body = plainer
    return body
