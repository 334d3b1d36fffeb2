"""Try every decoder for some minutes: `make fuzz MINUTES=10 DECODER="kubelet checkpoint"`.

Decoders take turns, so that all are tried however early it ends. A decoder's inputs are always the same for one seed.
One that goes wrong is made small and written below ``build/fuzz``, with the command that repeats it; what goes wrong in
the same words at one decoder is reported once.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.fuzz.corpus_files import examples_of, folder_of
from tests.fuzz.decoders import ALL_DECODERS
from tests.fuzz.evaluating import Evaluation, evaluate, evaluate_with_memory
from tests.fuzz.mutations import mutated
from tests.fuzz.shrinking import shrunk

TURN_S = 0.2
"""Processor time that a decoder is tried before the next has its turn."""
MEMORY_EVERY = 10
"""One input of so many is measured for memory."""
FOUND = Path("build/fuzz")


class Turns:
    """One decoder's inputs, and what came of them."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.runs = 0
        self.took_s = 0.0
        self.found: dict[str, Path] = {}
        self._random = Random(f"{name} {seed}")
        self._bodies = mutated(list(examples_of(name).values()), self._random)

    def play(self) -> None:
        """Try inputs for a turn."""
        started = time.process_time()
        while time.process_time() < started + TURN_S:
            self.runs += 1
            evaluated = evaluate_with_memory if self.runs % MEMORY_EVERY == 0 else evaluate
            self._try(next(self._bodies), evaluated)
        self.took_s += time.process_time() - started

    def _try(self, body: bytes, evaluated: Evaluation) -> None:
        wrong = evaluated(ALL_DECODERS[self.name], body)
        if wrong is None or _kind_of(wrong) in self.found:
            return
        kind = _kind_of(wrong)
        small = shrunk(body, lambda each: _is_of_kind(kind, evaluated(ALL_DECODERS[self.name], each)))
        place = FOUND / folder_of(self.name).name / f"found-{hashlib.sha256(small).hexdigest()[:8]}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(small)
        self.found[kind] = place
        _say(f"{self.name}: {wrong}: {small[:100]!r}\n  python -m tests.fuzz --decoder {self.name!r} --input {place}")


def _kind_of(wrong: str) -> str:
    """What went wrong without its figures."""
    return re.sub(r"\d+(\.\d+)?", "N", wrong)


def _is_of_kind(kind: str, wrong: str | None) -> bool:
    return wrong is not None and _kind_of(wrong) == kind


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def repeat(name: str, path: Path) -> int:
    """Give a decoder one file; an error that is not the decoder's is raised as it is."""
    body = path.read_bytes()
    wrong = evaluate_with_memory(ALL_DECODERS[name], body)
    _say(f"{name}: {wrong or 'as expected'}")
    if wrong is not None:
        ALL_DECODERS[name].read(body)
    return int(wrong is not None)


def fuzz(names: Sequence[str], minutes: float, seed: int) -> int:
    """Give all decoders turns for so long; 1 where anything went wrong."""
    turns = [Turns(name, seed) for name in names]
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        for each in turns:
            each.play()
            if time.monotonic() >= until:
                break
    for each in turns:
        _say(f"{each.runs:9} inputs {each.took_s:7.1f} s of CPU {len(each.found):3} wrong  {each.name}")
    total = Counter(runs=sum(each.runs for each in turns), found=sum(len(each.found) for each in turns))
    _say(f"{total['runs']:9} inputs at {len(turns)} decoders, seed {seed}; {total['found']} kinds of wrong answers")
    return int(total["found"] > 0)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--decoder", action="append", default=[], help="a decoder's name, or a part of it; all without")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", type=Path, help="give --decoder this file, and nothing else")
    arguments = parser.parse_args()
    if arguments.input is not None:
        return repeat(arguments.decoder[0], arguments.input)
    names = [
        name
        for name in ALL_DECODERS
        if not arguments.decoder or any(part in name for part in arguments.decoder if part)
    ]
    if not names:
        parser.error(f"no such decoder; there are {', '.join(sorted(ALL_DECODERS))}")
    return fuzz(names, arguments.minutes, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
