"""Renders the manual page of ``--help`` and the settings of ``--print-config``."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gcushare.runtime.exit_codes import EXIT_STATUS
from gcushare.runtime.settings.declare import Program, Spec
from gcushare.runtime.settings.parsers import ANY_TEXT

# Wide enough for a flag and a sentence, and narrow enough for half a screen. COLUMNS changes it within these bounds.
_WIDTH, _NARROWEST, _WIDEST = 100, 60, 120

_COMMON = (
    ("--print-config", "Print every setting as a flag with its value, and where the value comes from, and exit."),
    ("--version", "Print the version and exit."),
    ("-h, --help", "Print this page and exit."),
)


@dataclass(frozen=True, slots=True)
class ResolvedSetting:
    """A setting with its value and source."""

    spec: Spec
    value: Any
    source: str


def render_help(program: Program[Any], specs: Sequence[Spec], columns: str = "") -> str:
    """Render the manual page. ``columns`` is the value of COLUMNS."""
    page = _Page(columns)
    arguments = [spec.flag if spec.is_required else f"[{spec.flag}]" for spec in specs if spec.is_argument]
    page.usage(program.name, " ".join(["[OPTIONS]", *arguments]))
    page.paragraphs(program.summary)
    page.commands(program.name, program.commands)
    concerns: dict[str, list[Spec]] = {}
    for spec in specs:
        concerns.setdefault(spec.concern, []).append(spec)
    for concern, members in concerns.items():
        page.terms(concern, [(_name(spec), _describe(spec)) for spec in members])
    page.terms("Common", _COMMON)
    page.exit_status(program.exit_status)
    page.terms("Examples", [(_break_command(line, page.width - 2), text) for line, text in program.examples])
    for title, rows in program.legends:
        page.table(title, rows)
    page.notes(program.notes)
    return page.text


def render_overview(
    name: str, summary: str, commands: Sequence[tuple[str, str]], *, notes: str = "", columns: str = ""
) -> str:
    """Render the page of a command that has only subcommands. ``columns`` is the value of COLUMNS."""
    page = _Page(columns)
    page.usage(name, "COMMAND [OPTIONS]")
    page.paragraphs(summary)
    page.commands(name, commands)
    page.table("Common", _COMMON[-2:])
    page.exit_status({})
    page.notes(notes)
    return page.text


def render_config(program: str, resolved: Sequence[ResolvedSetting]) -> str:
    """Render the settings as flags that a shell reads back."""
    settings = (item for item in resolved if not item.spec.is_argument)
    lines = [(f"{item.spec.flag}={shlex.quote(item.spec.parser.show(item.value))}", item.source) for item in settings]
    width = max((len(line) for line, _ in lines), default=0)
    head = f"# {program}: every setting and where its value comes from\n"
    return head + "".join(f"{line.ljust(width)}  # {source}\n" for line, source in lines)


class _Page:
    """A page with sections. Words are never broken at a hyphen, so that a search finds keys and flags."""

    def __init__(self, columns: str) -> None:
        asked = int(columns) if columns.isascii() and columns.isdigit() else _WIDTH
        self.width = max(_NARROWEST, min(asked, _WIDEST))
        self.text = ""

    def usage(self, name: str, arguments: str) -> None:
        head = f"Usage: {name} "
        self._fill(arguments, head, " " * len(head))
        self.text += "\n"

    def commands(self, name: str, commands: Sequence[tuple[str, str]]) -> None:
        self.table("Commands", commands)
        if commands:
            self.text += "\n"
            self.paragraphs(f"'{name} COMMAND --help' shows a command's own flags.")

    def exit_status(self, own: Mapping[int, str]) -> None:
        """Write the table of `EXIT_STATUS`, with a program's own codes among them."""
        rows = {str(code): meaning for code, meaning in (*EXIT_STATUS.items(), *own.items())}
        self.table("Exit status", sorted(rows.items(), key=lambda row: (len(row[0]), row[0])))

    def notes(self, notes: str) -> None:
        if notes:
            self.section("Notes")
            self.paragraphs(notes, "  ")

    def section(self, title: str) -> None:
        self.text += f"\n{title}:\n"

    def paragraphs(self, text: str, indent: str = "") -> None:
        for number, part in enumerate(text.split("\n\n")):
            self.text += "\n" if number else ""
            self._fill(part, indent, indent)

    def table(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Write a section with two columns. Writes nothing without rows."""
        if not rows:
            return
        self.section(title)
        width = max(len(term) for term, _ in rows)
        for term, text in rows:
            head = f"  {term:<{width}}  "
            self._fill(text, head, " " * len(head))

    def terms(self, title: str, terms: Sequence[tuple[str, str]]) -> None:
        """Write a section of terms, each on its own line above its text, so that long flags stay readable."""
        if not terms:
            return
        self.section(title)
        for term, text in terms:
            self.text += textwrap.indent(f"{term}\n", "  ")
            self.paragraphs(text, "      ")

    def _fill(self, text: str, first: str, following: str) -> None:
        self.text += textwrap.fill(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=following,
            break_on_hyphens=False,
            break_long_words=False,
        )
        self.text += "\n"


def _break_command(line: str, room: int) -> str:
    """Break a long command line with backslashes, so that a shell accepts it."""
    if len(line) <= room:
        return line
    parts = textwrap.wrap(line, room - 2, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return " \\\n".join(parts)


def _name(spec: Spec) -> str:
    if spec.is_argument:
        return spec.flag
    words = ", ".join(spec.words)
    return words if spec.parser.is_switch else f"{words} {spec.parser.metavar}"


def _describe(spec: Spec) -> str:
    parser = spec.parser
    accepted = parser.inner or parser.accepted
    facts = [] if parser.is_switch or accepted == ANY_TEXT else [f"accepted: {accepted}"]
    if spec.is_required:
        facts.append("required")
    else:
        facts.append(f"default: {parser.show(spec.default) or parser.unset or 'none'}")
    if spec.env:
        facts.append(f"env: {spec.env}")
    elif not spec.is_argument:
        facts.append("on the command line alone")
    return f"{spec.help} [{'; '.join(facts)}]"
