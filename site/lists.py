"""Lists as Python-Markdown reads them: what belongs to an item is indented by four columns a level."""

from __future__ import annotations

import re

_MARKER = re.compile(r"(?:- |\d+\. )")


def indented_by_four(text: str) -> str:
    """``text`` with the indentation of GitHub's lists, the width of the marker, made four columns a level."""
    lines: list[str] = []
    items: list[int] = []  # the column where the text of each open item begins
    shift, is_code, is_loose = 0, False, False
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if bare and not is_code:
            while items and indent < items[-1]:
                items.pop()
            shift = 4 * len(items) - (items[-1] if items else 0)
        marker = None if is_code or indent + shift >= 4 * len(items) + 4 else _MARKER.match(bare)
        if marker is not None:
            if is_loose and lines[-1]:
                lines.append("")  # without it, an item after an item of several paragraphs would be their text
            items.append(indent + len(marker[0]))
        is_loose = marker is None and (is_loose or not bare)
        is_code ^= bare.startswith("```")
        lines.append(" " * (indent + shift) + bare if bare else "")
    return "\n".join(lines)
