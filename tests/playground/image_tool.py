#!/usr/bin/env python3
"""A stand-in for docker and ctr, the one tool of the scripts that cannot run here: it keeps notes and writes files.

It is linked under both names. ``IMAGE_TOOL_LOG`` gets one line per call; a call whose words contain what
``IMAGE_TOOL_FAILS`` says fails, as often as the file that it names has lines.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _fails(line: str) -> bool:
    plan = Path(os.environ["IMAGE_TOOL_FAILS"])
    left = plan.read_text().splitlines() if plan.exists() else []
    for number, words in enumerate(left):
        if words and words in line:
            plan.write_text("\n".join(left[:number] + left[number + 1 :]))
            return True
    return False


def main() -> int:
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    line = " ".join([name, *words])
    with Path(os.environ["IMAGE_TOOL_LOG"]).open("a") as log:
        log.write(line + "\n")
    if _fails(line):
        sys.stderr.write(f"{name}: refused by the test\n")
        return 1
    if "save" in words:
        Path(words[words.index("--output") + 1]).write_bytes(b"an image of " + words[-1].encode())
    elif words[:1] == ["build"]:
        sys.stdout.write(f"Successfully tagged {words[words.index('--tag') + 1]}\n")
    elif words[:1] == ["rmi"]:
        sys.stdout.write(f"Untagged: {words[-1]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
