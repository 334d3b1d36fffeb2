"""Changed examples, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.fuzz.messages import change_message
from tests.fuzz.texts import NASTY, change_bytes, change_line, change_number, change_words
from tests.fuzz.trees import change_tree

LARGE_BYTES = 300_000
"""About as long as the inputs are that are made long: what takes time or memory by the square shows there."""

_AS_TEXT = (change_words, change_words, change_line, change_number, change_bytes)


def changed(examples: Sequence[bytes], random: Random) -> bytes:
    """Change an example, by its form if it is known; some are made long, some are words that parsers know."""
    bodies = [*examples, b""]
    body, chance = random.choice(bodies), random.random()
    if chance < 0.02:
        return random.choice((*NASTY, random.randbytes(random.randrange(200))))
    if chance < 0.03:
        return _lengthened(body, random)
    structured = random.random() < 0.7
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        if len(body) > LARGE_BYTES // 10:
            break  # each further change of so much takes longer than the decoder does
        by_form = (change_tree(body, random) or change_message(body, random)) if structured else None
        body = by_form or random.choice(_AS_TEXT)(body, random)
    if random.random() < 0.05:
        other = random.choice(bodies)
        body = body[: random.randrange(len(body) + 1)] + other[random.randrange(len(other) + 1) :]
    return body


def _lengthened(body: bytes, random: Random) -> bytes:
    """A part of an example, repeated many times."""
    start, end = sorted((random.randrange(len(body) + 1), random.randrange(len(body) + 1)))
    first_line = body.splitlines(keepends=True)[:1]
    part = random.choice((body[start:end], *first_line, random.choice(NASTY))) or b"x"
    return body[:start] + part * (random.randrange(LARGE_BYTES) // len(part)) + body[end:]
