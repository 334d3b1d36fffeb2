"""Write what a program says about itself: the manual behind ``--help`` and the settings behind ``--print-config``."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from gcushare.runtime.exit_codes import EXIT_STATUS
from gcushare.runtime.settings.declare import Program, Spec
from gcushare.runtime.settings.file import VERSION, VERSION_KEY
from gcushare.runtime.settings.parsers import ANY_TEXT

MASK = "********"
# Wide enough for a flag and a sentence, narrow enough for half a screen; COLUMNS overrules it within these bounds.
_WIDTH, _NARROWEST, _WIDEST = 100, 60, 120

# Text that YAML reads as this very text; everything else (signs, colons, dates, leading zeros, empty) is quoted.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/_.-]*|0|[1-9][0-9]{0,14}[A-Za-z]*")
_YAML_WORDS = ("null", "true", "false")

_COMMON = (
    (
        "--config-file FILE",
        f"Settings file, YAML or JSON: '{VERSION_KEY}: {VERSION}', then settings by the names of their flags, without "
        "the dashes. A flag beats the environment, the environment beats the file, the file beats the default. "
        "[env: GCUSHARE_CONFIG]",
    ),
    ("--print-config", "Print every setting with its value and source, in the form of a settings file, and exit."),
    ("--version", "Print the version and exit."),
    ("-h, --help", "Print this page and exit."),
)


_HOW_TO_GO_ON = "'{name} COMMAND --help' shows a command's own flags."


@dataclass(frozen=True, slots=True)
class Resolved:
    """A setting, the value it got, and the source that gave it."""

    spec: Spec
    value: Any
    source: str

    def show(self) -> str:
        """Show the value as its parser reads it; a secret is masked."""
        text: str = self.spec.parser.show(self.value)
        return MASK if text and self.spec.declared.is_secret else text


def render_help(program: Program[Any], specs: Sequence[Spec], columns: str = "") -> str:
    """Write the manual page; ``columns`` is the terminal's width as the environment tells it."""
    page = _page_for(columns)
    arguments = "".join(
        f" {spec.flag}" if spec.is_required else f" [{spec.flag}]" for spec in specs if spec.is_argument
    )
    page.write_usage(program.name, f"[OPTIONS]{arguments}")
    page.write_paragraph()
    page.write_text(program.summary)
    page.write_table("Commands", program.commands)
    if program.commands:
        page.write_paragraph()
        page.write_text(_HOW_TO_GO_ON.format(name=program.name))
    for concern, members in _group_by_concern(specs).items():
        _write_terms(page, concern, [(_name(spec), _describe(spec)) for spec in members])
    _write_terms(page, "Common", _COMMON)
    page.write_table("Exit status", [(str(code), meaning) for code, meaning in EXIT_STATUS.items()])
    room = page.width - 2
    _write_terms(page, "Examples", [(_break_command(line, room), text) for line, text in program.examples])
    for title, rows in program.legends:
        page.write_table(title, rows)
    if program.notes:
        with page.section("Notes"):
            page.write_text(program.notes)
    return page.getvalue()


def render_overview(
    name: str, summary: str, commands: Sequence[tuple[str, str]], *, notes: str = "", columns: str = ""
) -> str:
    """Write the page of a command that is nothing but its subcommands; ``columns`` as of `render_help`."""
    page = _page_for(columns)
    page.write_usage(name, "COMMAND [OPTIONS]")
    page.write_paragraph()
    page.write_text(summary)
    page.write_table("Commands", commands)
    page.write_paragraph()
    page.write_text(_HOW_TO_GO_ON.format(name=name))
    page.write_table("Common", _COMMON[-2:])
    if notes:
        with page.section("Notes"):
            page.write_text(notes)
    return page.getvalue()


def _page_for(columns: str) -> _Page:
    asked = int(columns) if columns.isascii() and columns.isdigit() else _WIDTH
    return _Page(width=max(_NARROWEST, min(asked, _WIDEST)))


def render_config(program: str, resolved: Sequence[Resolved]) -> str:
    """Write the settings as a settings file that, given back, means the same; secrets are masked and commented out."""
    keys = [item for item in resolved if not item.spec.is_typed]
    lines = [(_format_key(item), item.source) for item in keys]
    width = max((len(line) for line, _ in lines), default=0)
    head = f"# {program}: every setting and where its value comes from\n{VERSION_KEY}: {VERSION}\n"
    return head + "".join(f"{line.ljust(width)}  # {json.dumps(source)[1:-1]}\n" for line, source in lines)


def _format_key(item: Resolved) -> str:
    mark = "# " if item.spec.declared.is_secret else ""
    return f"{mark}{item.spec.name}: {_quote(item.show())}"


def _group_by_concern(specs: Sequence[Spec]) -> dict[str, list[Spec]]:
    concerns: dict[str, list[Spec]] = {}
    for spec in specs:
        concerns.setdefault(spec.concern, []).append(spec)
    return concerns


class _Page(click.HelpFormatter):
    """Click's page, but no word is broken at a hyphen: keys and flags must be found by searching for them."""

    def write_text(self, text: str) -> None:
        """Write paragraphs, with an empty line between two."""
        indent = " " * self.current_indent
        self.write("\n".join(self._fill(part, indent, indent) for part in text.split("\n\n")))

    def write_table(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Write a section of two columns; nothing where there are no rows."""
        if not rows:
            return
        width = max(len(term) for term, _ in rows)
        with self.section(title):
            for term, text in rows:
                head = f"{'':{self.current_indent}}{term:<{width}}  "
                self.write(self._fill(text, head, " " * len(head)))

    def _fill(self, text: str, first: str, following: str) -> str:
        filled = textwrap.fill(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=following,
            break_on_hyphens=False,
            break_long_words=False,
        )
        return f"{filled}\n"


def _write_terms(page: _Page, title: str, terms: Sequence[tuple[str, str]]) -> None:
    """Write a list of terms, each on its own line above its text: flags of any length stay readable."""
    if not terms:
        return
    with page.section(title):
        for term, text in terms:
            page.write(textwrap.indent(f"{term}\n", " " * page.current_indent))
            page.indent()
            page.indent()
            page.write_text(text)
            page.dedent()
            page.dedent()


def _break_command(line: str, room: int) -> str:
    """Break a command line that is too long for the page as a shell reads it: with a backslash before the break."""
    if len(line) <= room:
        return line
    parts = textwrap.wrap(line, room - 2, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return " \\\n".join(parts)


def _name(spec: Spec) -> str:
    if spec.is_argument:
        return spec.flag
    short = "".join(f"{word}, " for word in (spec.declared.short, spec.declared.alias) if word)
    return (
        f"{short}{spec.flag}, --no-{spec.name}"
        if spec.parser.is_switch
        else f"{short}{spec.flag} {spec.parser.metavar}"
    )


def _describe(spec: Spec) -> str:
    parser = spec.parser
    accepted = parser.inner or parser.accepted
    facts = [] if parser.is_switch or accepted == ANY_TEXT else [f"accepted: {accepted}"]
    if spec.is_required:
        facts.append("required")
    else:
        facts.append(f"default: {Resolved(spec, spec.default, '').show() or parser.unset or 'none'}")
    if spec.env:
        facts.append(f"env: {spec.env}")
    elif not spec.is_argument:
        facts.append("on the command line alone")
    return f"{spec.declared.help} [{'; '.join(facts)}]"


def _quote(text: str) -> str:
    """Quote a value where YAML would read it as something else; JSON's quoting is YAML's."""
    is_plain = _PLAIN.fullmatch(text) and (text.lower() not in _YAML_WORDS or text in ("true", "false"))
    return text if is_plain else json.dumps(text, ensure_ascii=False)
