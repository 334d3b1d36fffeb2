"""Write what a program says about itself: the manual behind ``--help`` and the settings behind ``--print-config``."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from gcushare.runtime.exits import EXIT_STATUS
from gcushare.runtime.settings import Program, Spec
from gcushare.runtime.settings_file import VERSION, VERSION_KEY

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
    asked = int(columns) if columns.isascii() and columns.isdigit() else _WIDTH
    page = _Page(width=max(_NARROWEST, min(asked, _WIDEST)))
    arguments = "".join(
        f" {spec.flag}" if spec.is_required else f" [{spec.flag}]" for spec in specs if spec.is_argument
    )
    page.write_usage(program.name, f"[OPTIONS]{arguments}")
    page.write_paragraph()
    page.write_text(program.summary)
    for concern, members in _group_by_concern(specs).items():
        _write_terms(page, concern, [(_name(spec), _describe(spec)) for spec in members])
    _write_terms(page, "Common", _COMMON)
    with page.section("Exit status"):
        page.write_dl([(str(code), meaning) for code, meaning in EXIT_STATUS.items()])
    _write_terms(page, "Examples", program.examples)
    if program.notes:
        page.write_paragraph()
        page.write_text(program.notes)
    return page.getvalue()


def render_config(program: str, resolved: Sequence[Resolved]) -> str:
    """Write the settings as a settings file that, given back, means the same; secrets are masked and commented out."""
    keys = [item for item in resolved if not item.spec.is_argument]
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
        indent = " " * self.current_indent
        for paragraph in text.split("\n\n"):
            self.write(
                textwrap.fill(
                    paragraph,
                    self.width,
                    initial_indent=indent,
                    subsequent_indent=indent,
                    break_on_hyphens=False,
                    break_long_words=False,
                )
            )
            self.write("\n")


def _write_terms(page: _Page, title: str, terms: Sequence[tuple[str, str]]) -> None:
    """Write a list of terms, each on its own line above its text: flags of any length stay readable."""
    if not terms:
        return
    with page.section(title):
        for term, text in terms:
            page.write(f"{'':{page.current_indent}}{term}\n")
            page.indent()
            page.indent()
            page.write_text(text)
            page.dedent()
            page.dedent()


def _name(spec: Spec) -> str:
    if spec.is_argument:
        return spec.flag
    short = f"{spec.declared.short}, " if spec.declared.short else ""
    return (
        f"{short}{spec.flag}, --no-{spec.name}"
        if spec.parser.is_switch
        else f"{short}{spec.flag} {spec.parser.metavar}"
    )


def _describe(spec: Spec) -> str:
    facts = [] if spec.parser.is_switch else [f"accepted: {spec.parser.accepted}"]
    facts.append("required" if spec.is_required else f"default: {Resolved(spec, spec.default, '').show() or 'empty'}")
    if not spec.is_argument:
        facts.append(f"env: {spec.env}")
    return f"{spec.declared.help} [{'; '.join(facts)}]"


def _quote(text: str) -> str:
    """Quote a value where YAML would read it as something else; JSON's quoting is YAML's."""
    is_plain = _PLAIN.fullmatch(text) and (text.lower() not in _YAML_WORDS or text in ("true", "false"))
    return text if is_plain else json.dumps(text, ensure_ascii=False)
