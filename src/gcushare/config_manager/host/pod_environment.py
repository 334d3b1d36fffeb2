"""Replaces variables in the command line of a container as the kubelet does."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def container_variables(env: object) -> dict[str, str | None]:
    """Read a container's ``env``; None stands for a value that comes from elsewhere, such as a field of the pod."""
    variables: dict[str, str | None] = {}
    for entry in env if isinstance(env, list) else []:
        if not isinstance(entry, dict):
            continue
        value = entry.get("value")
        is_known = not entry.get("valueFrom")
        text, problem = expanded(str(value if value is not None else ""), variables)
        variables[str(entry.get("name", ""))] = text if is_known and not problem else None
    return variables


def expanded(text: str, variables: Mapping[str, str | None]) -> tuple[str, str]:
    """Replace each ``$(NAME)``, and ``$$`` by ``$``; returns the text, and why it is not known, empty if it is.

    The kubelet leaves a variable as it stands that the container does not have. It may have one that the manifest does
    not show, of a Service, so that such a text is not known.
    """
    unknown: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        value = variables.get(name)
        if value is None:
            unknown.append(name)
            return match[0]
        return value

    result = _REFERENCE.sub(replace, text)
    if not unknown:
        return result, ""
    return text, f"env has no value for $({unknown[0]}): write the value out"
