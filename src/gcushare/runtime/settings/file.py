"""Parse a settings file: YAML (so JSON as well), versioned, with the flags' names as its keys."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gcushare.core.errors import ConfigError, RemoteContractError

VERSION = 1
VERSION_KEY = "version"


@dataclass(frozen=True, slots=True)
class FileValues:
    """The texts found in a settings file, by setting name."""

    path: str
    values: Mapping[str, str]


class SettingsFileError(ConfigError):
    """The file has problems; ``understood`` holds the keys that have none, so that their values are checked as well."""

    def __init__(self, problems: Sequence[str], understood: FileValues) -> None:
        super().__init__(*problems)
        self.understood = understood


def parse_settings_file(path: str, content: str, known: Sequence[str]) -> FileValues:
    """Parse a settings file's content; ``known`` are the keys it may have.

    Raises:
        SettingsFileError: one problem per unknown version, unknown key or value that is no scalar.
    """
    document = _parse_yaml(path, content)
    if not isinstance(document, dict):
        problem = f"file {path}: holds {_name_kind(document)}; accepted: a mapping that begins with '{VERSION_KEY}: 1'"
        raise SettingsFileError([problem], FileValues(path, {}))
    problems = list(_check_version(path, document))
    values: dict[str, str] = {}
    for key, value in document.items():
        if key == VERSION_KEY:
            continue
        if key not in known:
            problems.append(_describe_unknown_key(path, str(key), known))
            continue
        text = _as_text(value)
        if text is None:
            problems.append(
                f"file {path} key {key}: holds {_name_kind(value)}; accepted: one value, or a list of values"
            )
        else:
            values[key] = text
    if problems:
        raise SettingsFileError(problems, FileValues(path, values))
    return FileValues(path, values)


def _parse_yaml(path: str, content: str) -> object:
    from gcushare.wire.foreign_yaml import load_yaml  # here: few programs are given a file, and all are asked for help

    try:
        return load_yaml(content, f"file {path}")
    except RemoteContractError as error:
        raise SettingsFileError([str(error)], FileValues(path, {})) from error


def _check_version(path: str, document: Mapping[object, object]) -> Sequence[str]:
    if VERSION_KEY not in document:
        return [f"file {path}: has no '{VERSION_KEY}'; add '{VERSION_KEY}: {VERSION}', the only known version"]
    found = document[VERSION_KEY]
    if found != VERSION or isinstance(found, bool):
        return [f"file {path} key {VERSION_KEY}: {found!r} is not known; known versions: {VERSION}"]
    return []


def _describe_unknown_key(path: str, key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"file {path}: unknown key {key!r}{hint} Known keys: {', '.join(sorted(known))}"


def _as_text(value: object) -> str | None:
    """Bring a scalar, or a list of scalars, to the text that a flag would carry; None for anything else."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case str() | int() | float():
            return str(value)
        case list():
            parts = [None if isinstance(item, list) else _as_text(item) for item in value]
            return None if any(part is None for part in parts) else ",".join(part for part in parts if part is not None)
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
