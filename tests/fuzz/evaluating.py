"""What an input may lead to: a value or the decoder's own error, in one short line, soon and with little memory.

Time is the processor's, so that other programs on the machine do not count; an input over the bound is tried twice more
before it counts. Memory is what Python and its extensions allocate through Python's allocator.
"""

from __future__ import annotations

import signal
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gcushare.core.errors import ConfigError, Refused
from tests.unit.foreign_inputs import Decoder

TIME_S, TIME_PER_BYTE_S = 1.0, 0.5e-3
"""Processor time that any input may take, and that each of its bytes may take: the YAML parser, pure Python, takes
some 50 us a byte."""
MEMORY_BYTES, MEMORY_PER_BYTE = 8 << 20, 600
"""Likewise: a value of YAML takes some 300 bytes per byte of text while it is read."""
HANGS_S = 60.0
"""Processor time after which an input is not waited for any longer."""
MAX_MESSAGE = 2000
"""Characters of an error's line; the problems of a ``ConfigError`` are a line each."""
MAX_QUOTED = 8
"""Characters of a line for each byte of what a person wrote, which is quoted with escapes; of a program's there is no
more than ``MAX_MESSAGE``, however much it sent."""

Evaluation = Callable[[Decoder, bytes], str | None]


class _HungError(BaseException):
    """No ``Exception``: a decoder that catches those must not catch this one."""


def evaluate(decoder: Decoder, body: bytes) -> str | None:
    """Say what is wrong about how a decoder takes some bytes; None where nothing is."""
    started = time.process_time()
    wrong = _why_wrong(decoder, body)
    if wrong is not None:
        return wrong
    allowed_s = TIME_S + TIME_PER_BYTE_S * len(body)
    took_s = time.process_time() - started
    for _ in range(2):
        if took_s > allowed_s:
            started = time.process_time()
            _why_wrong(decoder, body)
            took_s = min(took_s, time.process_time() - started)
    return f"took {took_s:.1f} s; at most {allowed_s:.1f} s" if took_s > allowed_s else None


def evaluate_with_memory(decoder: Decoder, body: bytes) -> str | None:
    """As ``evaluate``, and say whether it takes too much memory, which takes several times the time."""
    wrong = evaluate(decoder, body)  # first, so that what is imported or made once does not count
    if wrong is not None:
        return wrong
    tracemalloc.start()
    try:
        _why_wrong(decoder, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed = MEMORY_BYTES + MEMORY_PER_BYTE * len(body)
    return f"took {peak >> 20} MiB; at most {allowed >> 20} MiB" if peak > allowed else None


def _why_wrong(decoder: Decoder, body: bytes) -> str | None:
    try:
        with _hanging_after(HANGS_S):
            decoder.read(body)
    except decoder.error as error:
        return _why_bad_words(error, len(body))
    except _HungError:
        return f"took {HANGS_S:.0f} s and did not end"
    except Exception as error:
        return f"{type(error).__name__} instead of the decoder's error"
    return None


def _why_bad_words(error: Exception, size: int) -> str | None:
    problems = error.problems if isinstance(error, ConfigError) else (str(error),)
    most = MAX_MESSAGE + (MAX_QUOTED * size if isinstance(error, ConfigError | Refused) else 0)
    for problem in problems:
        if len(problem) > most:
            return f"a message of {len(problem)} characters"
        if any(end in problem for end in "\r\n"):
            return "a message of several lines"
        if problem.encode(errors="replace").decode() != problem:
            return "a message that cannot be written as UTF-8"
    return None


@contextmanager
def _hanging_after(limit_s: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _HungError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
