"""What MkDocs calls while it builds the site: headings get GitHub's anchors, and pages outside of docs/ come along."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lists import indented_by_four
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "README.zh-CN.md": "zh/index.md",
    **{name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")},
}
"""Files of the root, and the pages that they become."""

_CODE = re.compile(r"(?ms)^```.*?^```$|`[^`\n]+`")
_INFO = re.compile(r"(?m)^(```\w+) .*$")
"""A fence whose language other words follow, for the tests; MkDocs would not take it for one."""
_BREAK = re.compile(r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n *(?=[\u4e00-\u9fff])")
"""A line's end within a Chinese sentence, which browsers would show as a space."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Name headings as GitHub does, for the links that work there."""
    config.mdx_configs["toc"]["slugify"] = lambda title, _: re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the root's files as pages."""
    for name, page in OUTSIDE.items():
        text = indented_by_four(_with_links((ROOT / name).read_text(encoding="utf-8"), ROOT, page))
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links that leave docs/ to pages of the site, indent lists, and leave a fence its language alone."""
    path = page.file.src_uri
    markdown = _BREAK.sub("", _INFO.sub(r"\1", markdown))
    if path in OUTSIDE.values():
        return markdown
    return indented_by_four(_with_links(markdown, (ROOT / "docs" / path).parent, path))


def _with_links(text: str, folder: Path, page: str) -> str:
    """``text`` of a file in ``folder``, with its links as they are seen from ``page``; code stays as it is."""

    def change(found: re.Match[str]) -> str:
        sign, words, link = found.groups()
        target, mark, anchor = link.partition("#")
        if "://" in link or not target:
            return found[0]
        path = (folder / target).resolve()
        name = str(path.relative_to(ROOT))
        inside = OUTSIDE.get(name) or name.removeprefix("docs/")
        if name not in OUTSIDE and not (name.startswith("docs/") and path.is_file()):
            return words  # a folder, or a file that is no page
        up = "../" * page.count("/")
        return f"{sign}[{words}]({up}{inside}{mark}{anchor})"

    parts, last = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(change, text[last : code.start()]), code[0]]
        last = code.end()
    return "".join((*parts, _LINK.sub(change, text[last:])))
