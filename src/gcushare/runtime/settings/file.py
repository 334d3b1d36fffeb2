"""Parses a settings file: YAML or JSON, with a version, and the names of the flags as keys."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from gcushare.core.errors import RemoteContractError

VERSION = 1
VERSION_KEY = "version"


def parse_settings_file(path: str, content: str, known: Sequence[str], problems: list[str]) -> dict[str, str]:
    """Parse a settings file's content into texts by setting name. ``known`` are the accepted keys.

    Effects: adds to ``problems`` each unknown version, unknown key and value that is not a scalar. Returns the other
    keys in any case, so that their values are checked too.
    """
    from gcushare.wire.untrusted_yaml import (
        load_yaml,  # here: few programs are given a file, and all are asked for help
    )

    try:
        document = load_yaml(content, f"file {path}")
    except RemoteContractError as error:
        problems.append(str(error))
        return {}
    if not isinstance(document, dict):
        problems.append(
            f"file {path}: holds {_name_kind(document)}; accepted: a mapping that begins with '{VERSION_KEY}: 1'"
        )
        return {}
    version = document.pop(VERSION_KEY, None)
    if version is None:
        problems.append(f"file {path}: has no '{VERSION_KEY}'; add '{VERSION_KEY}: {VERSION}', the only known version")
    elif version != VERSION or isinstance(version, bool):
        problems.append(f"file {path} key {VERSION_KEY}: {version!r} is not known; known versions: {VERSION}")
    values: dict[str, str] = {}
    for key, value in document.items():
        text = _as_text(value)
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            problems.append(f"file {path}: unknown key {str(key)!r}{hint} Known keys: {', '.join(sorted(known))}")
        elif text is None:
            problems.append(
                f"file {path} key {key}: holds {_name_kind(value)}; accepted: one value, or a list of values"
            )
        else:
            values[key] = text
    return values


def _as_text(value: object) -> str | None:
    """Convert a scalar or a list of scalars to the text of a flag; None for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case str() | int() | float():
            return str(value)
        case list():
            parts = [None if isinstance(item, list) else _as_text(item) for item in value]
            return None if None in parts else ",".join(part for part in parts if part is not None)
        case _:
            return None


def _name_kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return f"{type(value).__name__} {str(value)[:60]!r}"
