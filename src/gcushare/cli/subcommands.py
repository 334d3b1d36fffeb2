"""The command ``gcushare``: one name for all commands that people run. Each subcommand has its own settings."""

from __future__ import annotations

import difflib
import importlib.util
from dataclasses import dataclass, replace
from typing import Any

from gcushare._version import __version__
from gcushare.runtime.entry import ProcessContext, columns_of, run_program
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.help_text import render_overview
from gcushare.runtime.start import load


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A word after ``gcushare``.

    ``work`` is MODULE:FUNCTION; it takes settings and a ``ProcessContext`` and returns the exit code. ``program`` is
    MODULE:NAME of its settings and help; without one the function takes the context alone. Both are named and not
    imported, so that ``gcushare --version`` and ``--help`` load nothing that does the work.
    """

    name: str
    summary: str
    work: str
    program: str = ""

    def run(self, process: ProcessContext, **given: Any) -> int:
        """Load and run it. ``given`` is passed on to the work: tests replace stdin or /proc with it."""
        if not self.program:
            return load(*self.work.split(":"))(process)
        program: Any = load(*self.program.split(":"))
        return run_program(program, lambda found: load(*self.work.split(":"))(found, process, **given), process=process)


_CLI = "gcushare.cli"


def _own(name: str, summary: str, module: str, function: str = "run", program: str = "PROGRAM") -> Subcommand:
    return Subcommand(name, summary, f"{_CLI}.{module}:{function}", f"{_CLI}.{module}_settings:{program}")


def _of_kubectl(name: str, summary: str) -> Subcommand:
    return Subcommand(name, summary, f"{_CLI}.inspect.command_line:own_{name.replace('-', '_')}")


SUBCOMMANDS = {
    each.name: each
    for each in (
        Subcommand(
            "demo", "the whole system on this machine, without a cluster", "gcushare_playground.demo.command:main"
        ),
        _of_kubectl("inspect", "who uses which card: nodes, cards, pods"),
        _of_kubectl("explain", "why a pod has no card, or which card it has"),
        _of_kubectl("top", "memory granted and memory in use, card by card"),
        _of_kubectl("rightsize", "what workloads ask for, the most they used, and what would be enough"),
        _of_kubectl("nodes-needed", "how many more nodes the waiting pods need"),
        _own("doctor", "what is wrong with a cluster or a node, and what to do", "doctor.doctor"),
        _own("support-bundle", "for support: one archive without secrets", "support_bundle.bundle"),
        _own("cards", "a node's cards: state, memory, temperature, and who is on them", "cards.cards"),
        _own("cordon-card", "no new pods on one card; the ones there stay", "cordon.cordon", "cordon", "CORDON"),
        _own("uncordon-card", "let new pods on a card again", "cordon.cordon", "uncordon", "UNCORDON"),
        _own("defragment", "which pods to move to make room for a request", "defragment.defragment"),
    )
}


def main(process: ProcessContext) -> int:
    """Run the command and return its exit code."""
    word = process.argv[0] if process.argv else "--help"
    if word in ("--help", "-h"):
        summary = "Many pods share one accelerator card by memory on Kubernetes."
        commands = [(each.name, each.summary) for each in SUBCOMMANDS.values()]
        process.stdout.write(render_overview("gcushare", summary, commands, columns=columns_of(process)))
        return DONE
    if word == "--version":
        process.stdout.write(f"gcushare {__version__}\n")
        return DONE
    found = SUBCOMMANDS.get(word)
    if found is None:
        near = difflib.get_close_matches(word, SUBCOMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        kind = "setting" if word.startswith("-") else "command"
        known = ", ".join(SUBCOMMANDS)
        process.stderr.write(
            f"error: no such {kind}: {word!r}; known commands: {known}.{hint} Run 'gcushare --help'.\n"
        )
        return MISUSED
    # The demo is a distribution of its own; find_spec imports nothing of it.
    if importlib.util.find_spec(found.work.partition(".")[0]) is None:
        process.stderr.write(
            f"error: 'gcushare {word}' is part of the distribution gcushare-playground, which is not installed: "
            "install it from playground/ of the sources, or run 'make demo' there\n"
        )
        return MISUSED
    return found.run(replace(process, argv=tuple(process.argv[1:])))
