"""Docstrings speak of names that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tests.source import modules, statements

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_NAMES = r"``[a-z_][a-z0-9_]*``(?:(?:, | and | or )``[a-z_][a-z0-9_]*``)*"
STATEMENT = re.compile(rf"(?:\A|[.;:]\s+|\n\s*)({_NAMES})(?=:| (?:is|are|says?|has|have|gets?|counts?|names?)\b)")
"""The house's form: a sentence or an entry that begins with the names it is about."""


def names_spoken_of(docstring: str) -> set[str]:
    """The names that a docstring says something of."""
    return {name for found in STATEMENT.finditer(docstring) for name in re.findall(r"\w+", found[1])} - {"and", "or"}


def names_in(node: ast.AST) -> Iterator[str]:
    """Parameters, attributes, variables, keywords and texts (keys and values of documents), without docstrings."""
    for each in ast.walk(node):
        if isinstance(each, ast.arg | ast.keyword):
            yield each.arg or ""
        elif isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, Function):
            yield each.name
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
            yield each.attr
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value if each.value.isidentifier() else ""


def names_of(node: ast.ClassDef | Function, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """What a class or function has, with what the class inherits from others of the house."""
    found = set(names_in(node))
    for base in node.bases if isinstance(node, ast.ClassDef) else ():
        name = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(name, ast.Name) and name.id in classes and classes[name.id] is not node:
            found |= names_of(classes[name.id], classes)
    return found


def wrong_statements(trees: Mapping[str, ast.AST]) -> list[str]:
    """Names that docstrings of classes and functions say something of, and that are not there."""
    nodes = [(path, each) for path, tree in trees.items() for each in statements(tree)]
    classes = {each.name: each for _, each in nodes if isinstance(each, ast.ClassDef)}
    own = {id(part): each for _, each in nodes if isinstance(each, ast.ClassDef) for part in each.body}
    found = []
    for path, each in nodes:
        if isinstance(each, ast.ClassDef | Function):
            missing = names_spoken_of(ast.get_docstring(each) or "")
            if missing:
                missing -= names_of(each, classes)
            if missing and id(each) in own:
                missing -= names_of(own[id(each)], classes)
            found += [f"{path}: {each.name} has no {name}" for name in sorted(missing)]
    return found


def test_docstrings_name_only_attributes_and_parameters_that_exist() -> None:
    assert wrong_statements(modules()) == []
