"""The source as tests read it: every module parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "gcushare"


@cache
def modules(package: Path = HOUSE) -> Mapping[str, ast.Module]:
    """The modules by their paths below a package, without what protoc wrote."""
    paths = [each for each in sorted(package.rglob("*.py")) if not each.stem.endswith("_pb2")]
    return {each.relative_to(package).as_posix(): ast.parse(each.read_text(encoding="utf-8")) for each in paths}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements in a module or statement; expressions, nine of ten nodes, are not looked into."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        for each in getattr(node, name, ()):
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)
