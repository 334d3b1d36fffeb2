"""Lines on a terminal are safe, whatever text they contain."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from gcushare.cli.terminal.screen import Screen
from gcushare.runtime.entry import ProcessContext

PLAIN, COLOURED = "red  [2J\n", "\x1b[31mred\x1b[0m  [2J\n"


@pytest.mark.parametrize(
    ("environ", "shown"),
    [({}, PLAIN), ({"FORCE_COLOR": "1"}, COLOURED), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN)],
)
def test_lines_keep_their_styles_and_nothing_that_a_terminal_would_obey(environ: dict[str, str], shown: str) -> None:
    stdout = io.StringIO()
    Screen(ProcessContext((), environ, stdout, io.StringIO())).print_lines([Text.assemble(("red", "red"), " \x1b[2J")])
    assert stdout.getvalue() == shown
