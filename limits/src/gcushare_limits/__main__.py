"""``gcushare-limits``: run a Python program within the container's grant, or print the grant for other programs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import gcushare_limits
from gcushare_limits.grant import share_text

USAGE = """usage: gcushare-limits fraction | bytes | PROGRAM.py [ARGUMENTS] | -m MODULE [ARGUMENTS]

fraction   the part of each card's memory that this container was granted, such as 0.2500: for
           `vllm serve --gpu-memory-utilization "$(gcushare-limits fraction)"`
bytes      the same in bytes; fails where no memory was granted
PROGRAM    run a Python program with PyTorch, TensorFlow, JAX, CuPy and PaddlePaddle kept within it
"""


def main() -> int:
    """Run the command; returns its exit code."""
    word, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if word in ("", "-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if word else 2
    if word == "fraction":
        sys.stdout.write(f"{share_text(gcushare_limits.fraction())}\n")
        return 0
    if word == "bytes":
        found = gcushare_limits.memory_bytes()
        if found is None:
            sys.stderr.write("gcushare-limits: this container was granted no memory of a card\n")
            return 1
        sys.stdout.write(f"{found}\n")
        return 0
    if word == "-m" and rest:
        _import_from(Path.cwd())
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        program = Path(word)
        _import_from(program if program.is_dir() else program.resolve().parent)
        sys.argv = [word, *rest]
        runpy.run_path(word, run_name="__main__")
    return 0


def _import_from(folder: Path) -> None:
    """Replace the first entry of ``sys.path`` with the one that Python would use for this program."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):  # safe_path: from Python 3.11 on
        sys.path[0] = str(folder)


if __name__ == "__main__":
    sys.exit(main())
