"""One changed example after another, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from tests.fuzz.messages import change_message
from tests.fuzz.texts import NASTY, change_bytes, change_line, change_number, change_words
from tests.fuzz.trees import change_tree

LARGE_BYTES = 300_000
"""About as long as the inputs are that are made long: what takes time or memory by the square shows there."""

_AS_TEXT = (change_words, change_words, change_line, change_number, change_bytes)


def mutated(examples: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Changed examples, without end."""
    bodies = [*examples, b""]
    while True:
        body = random.choice(bodies)
        chance = random.random()
        if chance < 0.02:
            yield random.choice((*NASTY, random.randbytes(random.randrange(200))))
        elif chance < 0.03:
            yield _lengthened(body, random)
        else:
            yield _changed(body, random, bodies)


def _changed(body: bytes, random: Random, bodies: Sequence[bytes]) -> bytes:
    structured = random.random() < 0.7
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        if len(body) > LARGE_BYTES // 10:
            break  # each further change of so much takes longer than the decoder does
        by_form = _by_form(body, random) if structured else None
        body = random.choice(_AS_TEXT)(body, random) if by_form is None else by_form
    if random.random() < 0.05:
        other = random.choice(bodies)
        body = body[: random.randrange(len(body) + 1)] + other[random.randrange(len(other) + 1) :]
    return body


def _by_form(body: bytes, random: Random) -> bytes | None:
    """A change that keeps the form, where there is one that is known."""
    changes: tuple[Callable[[bytes, Random], bytes | None], ...] = (change_tree, change_message)
    return next((found for change in changes if (found := change(body, random)) is not None), None)


def _lengthened(body: bytes, random: Random) -> bytes:
    """A part of an example, repeated many times."""
    start, end = sorted((random.randrange(len(body) + 1), random.randrange(len(body) + 1)))
    part = random.choice(
        (body[start:end], body.splitlines(keepends=True)[0] if body.strip() else b"", random.choice(NASTY))
    )
    return body[:start] + (part or b"x") * (random.randrange(LARGE_BYTES) // len(part or b"x")) + body[end:]
