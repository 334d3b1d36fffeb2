"""Lists as Python-Markdown reads them: what belongs to an item is indented by four columns a level."""

from __future__ import annotations

import re

_MARKER = re.compile(r"(?:- |\d+\. )")


def indented_by_four(text: str) -> str:
    """``text`` with the indentation of GitHub's lists, the width of the marker, made four columns a level."""
    lines: list[str] = []
    items: list[int] = []  # the column where the text of each open item begins
    shift, is_code = 0, False
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if bare and not is_code:
            while items and indent < items[-1]:
                items.pop()
            shift = 4 * len(items) - (items[-1] if items else 0)
        lines.append(" " * (indent + shift) + bare if bare else "")
        if bare.startswith("```"):
            is_code = not is_code
        elif not is_code and indent + shift < 4 * len(items) + 4 and (marker := _MARKER.match(bare)):
            items.append(indent + len(marker[0]))
    return "\n".join(lines)
