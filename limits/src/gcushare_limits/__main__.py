"""``gcushare-limits``: run a Python program within the container's grant, or print the grant for other programs."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from importlib.metadata import version
from pathlib import Path

import gcushare_limits
from gcushare_limits.grant import share_text

USAGE = """usage: gcushare-limits fraction | bytes | PROGRAM.py [ARGUMENTS] | -m MODULE [ARGUMENTS]

fraction   the part of each card's memory that this container was granted, such as 0.2500: for
           `vllm serve --gpu-memory-utilization "$(gcushare-limits fraction)"`
bytes      the same in bytes; fails where no memory was granted
PROGRAM    run a Python program with PyTorch, TensorFlow, JAX, CuPy and PaddlePaddle kept within it
--version  the version of gcushare-limits
"""


def main() -> int:
    """Run the command; returns its exit code."""
    word, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if word in ("", "-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if word else 2
    if word == "--version":
        sys.stdout.write(f"gcushare-limits {version('gcushare-limits')}\n")
        return 0
    if word in ("fraction", "bytes") and rest:
        return _refuse(f"{word!r} takes no arguments, not {rest[0]!r}; name a program of that name './{word}'")
    if word == "fraction":
        sys.stdout.write(f"{share_text(gcushare_limits.fraction())}\n")
        return 0
    if word == "bytes":
        found = gcushare_limits.memory_bytes()
        if found is None:
            return _refuse("this container was granted no memory of a card", 1)
        sys.stdout.write(f"{found}\n")
        return 0
    if word == "-m":
        if not rest:
            return _refuse("-m needs the name of a module")
        _import_from(Path.cwd())
        if rest[0].startswith(".") or not _is_module(rest[0]):
            return _refuse(f"there is no module {rest[0]!r}", 1)
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif word.startswith("-"):
        return _refuse(f"there is no option {word!r}; run a program of that name by its path, './{word}'")
    elif not Path(word).exists():
        return _refuse(f"there is no program {word!r}; give fraction, bytes, -m MODULE or the path of a Python program")
    else:
        program = Path(word)
        _import_from(program if program.is_dir() else program.resolve().parent)
        sys.argv = [word, *rest]
        runpy.run_path(str(program.absolute()), run_name="__main__")
    return 0


def _refuse(problem: str, code: int = 2) -> int:
    sys.stderr.write(f"gcushare-limits: {problem}\n")
    return code


def _is_module(name: str) -> bool:
    """Whether Python finds a module; an error inside of its package is the program's own, which shows its stack."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return False


def _import_from(folder: Path) -> None:
    """Replace the first entry of ``sys.path`` with the one that Python would use for this program."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):  # safe_path: from Python 3.11 on
        sys.path[0] = str(folder)


if __name__ == "__main__":
    sys.exit(main())
