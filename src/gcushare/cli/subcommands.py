"""The command ``gcushare``: one word for what is no program of a cluster; each subcommand has its own settings."""

from __future__ import annotations

import difflib
import importlib.util
from dataclasses import dataclass, replace

from gcushare._version import __version__
from gcushare.runtime.entry import Surroundings, columns_of
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.help_text import render_overview
from gcushare.runtime.start import load


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A word after ``gcushare``: ``function`` of ``module`` takes the surroundings and returns the exit code.

    Named, not imported: ``gcushare --version`` must not load a cluster.
    """

    name: str
    module: str
    summary: str
    function: str = "main"

    def run(self, around: Surroundings) -> int:
        """Load the module and hand over."""
        return load(self.module, self.function)(around)


SUBCOMMANDS = (
    Subcommand("demo", "gcushare_playground.demo.command", "the whole system on this machine, without a cluster"),
    Subcommand("doctor", "gcushare.cli.doctor.command", "what is wrong with a cluster or a node, and what to do"),
    Subcommand("support-bundle", "gcushare.cli.support_bundle.command", "for support: one archive without secrets"),
    Subcommand("cards", "gcushare.cli.cards.command", "a node's cards: state, memory, temperature, and who is on them"),
    Subcommand(
        "cordon-card", "gcushare.cli.cordon.command", "no new pods on one card; the ones there stay", "cordon_main"
    ),
    Subcommand("uncordon-card", "gcushare.cli.cordon.command", "let new pods on a card again", "uncordon_main"),
    Subcommand("simulate", "gcushare.cli.simulate.command", "which placement policy would waste least, on paper"),
    Subcommand("defragment", "gcushare.cli.defragment.command", "which pods to move to make room for a request"),
)


def main(surroundings: Surroundings | None = None) -> int:
    """Run the command and return its exit code."""
    around = surroundings or Surroundings()
    word = around.argv[0] if around.argv else "--help"
    if word in ("--help", "-h"):
        around.stdout.write(_help(columns_of(around)))
        return DONE
    if word == "--version":
        around.stdout.write(f"gcushare {__version__}\n")
        return DONE
    found = next((each for each in SUBCOMMANDS if each.name == word), None)
    if found is None:
        around.stderr.write(f"error: {_complain(word)}\n")
        return MISUSED
    # The demo is a distribution of its own; find_spec imports nothing of it.
    if importlib.util.find_spec(found.module.partition(".")[0]) is None:
        around.stderr.write(
            f"error: 'gcushare {word}' is part of the distribution gcushare-playground, which is not installed: "
            "install it from playground/ of the sources, or run 'make demo' there\n"
        )
        return MISUSED
    return found.run(replace(around, argv=tuple(around.argv[1:])))


def _help(columns: str) -> str:
    summary = "Many pods share one accelerator card by memory on Kubernetes."
    return render_overview("gcushare", summary, [(each.name, each.summary) for each in SUBCOMMANDS], columns=columns)


def _complain(word: str) -> str:
    names = [each.name for each in SUBCOMMANDS]
    near = difflib.get_close_matches(word, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    kind = "setting" if word.startswith("-") else "command"
    return f"no such {kind}: {word!r}; known commands: {', '.join(names)}.{hint} Run 'gcushare --help'."
