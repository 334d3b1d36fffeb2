"""The command word is found between flags and their values, and kubectl's spellings are understood."""

from __future__ import annotations

import pytest

from gcushare.cli.completion.arguments import Grammar, spell_out, take_command
from gcushare.cli.inspect.help_text import SETTINGS
from gcushare.runtime.settings.declare import list_specs

GRAMMAR = Grammar.of(spec for cls in SETTINGS.values() for spec in list_specs(cls))


@pytest.mark.parametrize(
    ("line", "command", "rest"),
    [
        ("", "", ""),
        ("node-1", "", "node-1"),
        ("explain pod-1", "explain", "pod-1"),
        ("-n demo explain pod-1", "explain", "-n demo pod-1"),
        ("-d top", "top", "-d"),
        ("--kubeconfig explain top", "top", "--kubeconfig explain"),
        ("--kubeconfig=f top", "top", "--kubeconfig=f"),
        ("-ojson top", "top", "-ojson"),
        ("-dA top", "top", "-dA"),
        ("-dn top node-1", "", "-dn top node-1"),
        ("--no-color explain p", "explain", "--no-color p"),
        ("node top", "node", "top"),
        ("node-1 top", "", "node-1 top"),
        ("-- top", "top", "--"),
    ],
)
def test_the_first_word_that_is_no_flags_value_may_be_a_command(line: str, command: str, rest: str) -> None:
    assert take_command(GRAMMAR.read(line.split()), SETTINGS) == (command, rest.split())


def test_kubectls_words_for_acting_as_somebody_are_understood() -> None:
    spelled = spell_out(["--as", "bob", "--as-group=ops", "--assign"])
    assert spelled == ["--act-as", "bob", "--act-as-group=ops", "--assign"]
