"""The documents as tests see them: where they are, and their headings, code blocks, links and words in code spans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDES = tuple(sorted(path.name for path in DOCS.glob("*.md")))
"""The documents that exist in both languages: in English under docs/, in Chinese under docs/zh/."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_ITEM = re.compile(r"^(?P<indent> *)- (?P<text>.+(?:\n +(?!- )\S.*)*)", re.MULTILINE)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced code block: ``info`` is what stands behind the fence, ``line`` where it begins."""

    info: tuple[str, ...]
    text: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether the tests run it, or create it, against the playground."""
        return "playground" in self.info


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading; ``anchor`` is the name that GitHub gives it."""

    level: int
    title: str

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Document:
    """One Markdown file."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> Document:
        return cls(path, path.read_text(encoding="utf-8"))

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def prose(self) -> str:
        """The text without code blocks."""
        return _FENCE.sub("", self.text)

    def blocks(self) -> list[Block]:
        return [
            Block(tuple(found["info"].split()), found["text"], self.text.count("\n", 0, found.start()) + 1)
            for found in _FENCE.finditer(self.text)
        ]

    def indented(self) -> list[str]:
        """The code blocks without a fence."""
        return _INDENTED.findall(self.prose)

    def headings(self) -> list[Heading]:
        return [Heading(len(found[1]), found[2].strip()) for found in _HEADING.finditer(self.prose)]

    def links(self) -> Iterator[str]:
        return (found[1] for found in _LINK.finditer(self.prose))

    def spans(self) -> list[str]:
        """What stands in single backquotes."""
        return _SPAN.findall(self.prose)

    def rows(self, heading: str) -> list[list[str]]:
        """The cells of the table's rows below the heading of this title, its own head left out."""
        lines = self._section(heading).splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]

    def items(self, heading: str) -> list[str]:
        """The list items below the heading of this title, each on one line; two spaces of indentation per level."""
        found = _ITEM.finditer(self._section(heading))
        return [item["indent"] + " ".join(item["text"].split()) for item in found]

    def _section(self, heading: str) -> str:
        return self.prose.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def every_document() -> list[Document]:
    """All Markdown files that readers find: the root's and those under docs/."""
    return [Document.read(path) for path in sorted((*ROOT.glob("*.md"), *DOCS.rglob("*.md")))]


def guide(name: str, *, chinese: bool = False) -> Document:
    return Document.read((DOCS / "zh" if chinese else DOCS) / name)


def commands(page: str, block: int) -> str:
    """One block of commands, counted from 0."""
    return [each.text for each in guide(page).blocks() if each.info == ("sh",)][block]


def page_text(page: str, beginning: str) -> str:
    """The one YAML block that begins so."""
    (found,) = (each.text for each in guide(page).blocks() if each.text.startswith(beginning))
    return found


def page_yaml(page: str, beginning: str) -> dict[str, Any]:
    """The document of the one YAML block that begins so."""
    document: dict[str, Any] = YAML(typ="safe").load(page_text(page, beginning))
    return document


def recipe(name: str) -> tuple[dict[str, Any], ...]:
    """The objects of a block of docs/recipes.md, by the name in its first comment."""
    return tuple(YAML(typ="safe").load_all(page_text("recipes.md", f"# {name}\n")))


def recipe_names() -> list[str]:
    """The names of all YAML blocks there; every block has one."""
    blocks = [block for block in guide("recipes.md").blocks() if block.info[:1] == ("yaml",)]
    return [block.text.partition("\n")[0].removeprefix("# ") for block in blocks]
