"""Lines on a terminal are safe, whatever text they contain."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from gcushare.cli.terminal.screen import Screen
from gcushare.runtime.entry import ProcessContext


@pytest.mark.parametrize(("color", "shown"), [(False, "red  [2J\n"), (True, "\x1b[31mred\x1b[0m  [2J\n")])
def test_lines_keep_their_styles_and_nothing_that_a_terminal_would_obey(color: bool, shown: str) -> None:
    stdout = io.StringIO()
    Screen(ProcessContext((), {}, stdout, io.StringIO()), color).print_lines(
        [Text.assemble(("red", "red"), " \x1b[2J")]
    )
    assert stdout.getvalue() == shown
