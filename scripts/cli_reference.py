"""Write docs/cli-reference.md from the programs themselves.

    python -m scripts.cli_reference            write the file
    python -m scripts.cli_reference --check    exit 1 if the file is not in step

Every command that the package installs is asked for its ``--help``, and so is every command that such a page lists. The
help is English, so the page exists once: its Chinese twin is written by hand, says how to read it and links to it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import socket
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cli-reference.md"
HEAD = """\
# Command line reference

[中文](zh/cli-reference.md)

Every command, its flags and their defaults, as `--help` prints them. Each setting is a flag and an environment
variable, unless its text says 'on the command line alone'; `--print-config` shows the result and where each value came
from. Examples of use are in the [user guide](user-guide.md) and the [admin guide](admin-guide.md).

Generated from the programs by `python -m scripts.cli_reference`; do not edit.
"""
WIDTH = 100
_OURS = ("gcushare.device_plugin.", "gcushare.scheduler_extender.")
_KUBECTL = re.compile(r"^kubectl-inspect-")
_LISTED = re.compile(r"^  ([a-z][a-z-]*)  +\S", re.MULTILINE)
_FIRST_FLAG = re.compile(r"^[A-Z][\w ]*:\n +-", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """One command as a person types it, with the page that ``--help`` shows."""

    command: str
    text: str

    def split(self) -> tuple[str, str]:
        """Usage with summary, and everything from the first flag's heading on."""
        start = _FIRST_FLAG.search(self.text)
        return (self.text[: start.start()], self.text[start.start() :]) if start else (self.text, "")


def main() -> int:
    """Write the file, or compare it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the file, and change nothing")
    is_check = parser.parse_args().check
    text = render(list(_read_pages()))
    if not is_check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{PAGE.relative_to(ROOT)} is not in step: run python -m scripts.cli_reference\n")
        return 1
    return 0


def render(pages: list[Page]) -> str:
    """Return the head, then each command's page below a heading; flags that stood above are not repeated."""
    described: dict[str, str] = {}
    parts = [HEAD]
    for page in pages:
        opening, settings = page.split()
        first = described.setdefault(_normalize(settings, page.command), page.command) if settings else page.command
        repeated = f"{opening.rstrip()}\n\nFlags and notes: as of '{first}'."
        body = page.text.rstrip() if first == page.command else repeated
        parts.append(f"\n## {page.command}\n\n```text\n{body}\n```\n")
    return "".join(parts)


def _normalize(settings: str, command: str) -> str:
    """Flags and notes without what merely names the command or the vendor's family."""
    words = " ".join(settings.replace(command, "COMMAND").split())
    return words.replace("gpushare", "gcushare").replace("GPU", "GCU")


def _read_pages() -> Iterator[Page]:
    scripts: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, target in sorted(scripts.items()):
        if name.endswith("-v2") or (target.startswith(_OURS) and target.endswith(":main_gpushare")):
            continue  # a further name of the same program
        page = Page(_KUBECTL.sub("kubectl inspect ", name), _ask(name, target, "--help"))
        yield page
        for word in _list_commands(page.text):
            yield Page(f"{page.command} {word}", _ask(name, target, word, "--help"))


def _list_commands(text: str) -> Iterator[str]:
    """The commands that an overview lists: lines of two spaces, a word and a summary, before any flag or after all."""
    if "COMMAND" not in text:
        return
    head, _, tail = text.partition("\nCommands")
    listing = tail.split("\n\n", 1)[0] if tail else head if _FIRST_FLAG.search(text) is None else ""
    yield from _LISTED.findall(listing)


def _ask(name: str, target: str, *arguments: str) -> str:
    """Run a console script's entry point in this process, as its wrapper does, and return what it printed."""
    module, _, function = target.partition(":")
    entry = getattr(importlib.import_module(module), function)
    printed = io.StringIO()
    sys.argv = [name, *arguments]
    try:
        with contextlib.redirect_stdout(printed):
            code = entry()
    except SystemExit as ended:
        code = ended.code
    if code:
        raise SystemExit(f"{name} {' '.join(arguments)} ended with {code}")
    return _without_this_host(printed.getvalue())


def _without_this_host(text: str) -> str:
    """Replace the one default that depends on the machine: this host's name."""
    shown = f"default: {socket.gethostname().lower()};"
    blocks = re.split(r"(?<=\n)(?=  -)", text)
    return "".join(_refill(block, shown) if shown in " ".join(block.split()) else block for block in blocks)


def _refill(block: str, shown: str) -> str:
    """Rewrite the one setting whose default is this host's name; other settings pass as they are."""
    if not block.startswith("  --node-name NAME"):
        return block
    term, rest = block.split("\n", 1)
    body, blank, after = rest.partition("\n\n")
    words = " ".join(body.split()).replace(shown, "default: this host's name;")
    filled = textwrap.fill(words, WIDTH - 2, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"{term}\n{filled}\n" + (f"\n{after}" if blank else "")


if __name__ == "__main__":
    os.environ["COLUMNS"] = str(WIDTH)
    sys.exit(main())
