"""The examples: a folder per decoder, hand-written files, and inputs that once went wrong (``found-*``)."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fuzz.decoders import ALL_DECODERS

CORPUS = Path(__file__).parent / "corpus"


def folder_of(name: str) -> Path:
    """The folder of a decoder's examples."""
    return CORPUS / (re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"))


def examples_of(name: str) -> dict[str, bytes]:
    """Every example of a decoder by its name: those in code next to the decoder, and its files."""
    inline = {f"{number}": body for number, body in enumerate(ALL_DECODERS[name].examples)}
    return inline | {path.name: path.read_bytes() for path in sorted(folder_of(name).glob("*"))}
