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
_INSPECT = f"{_CLI}.inspect.command_line"
SUBCOMMANDS = {
    each.name: each
    for each in (
        Subcommand(
            "demo", "the whole system on this machine, without a cluster", "gcushare_playground.demo.command:main"
        ),
        Subcommand("inspect", "who uses which card: nodes, cards, pods", f"{_INSPECT}:own_inspect"),
        Subcommand("explain", "why a pod has no card, or which card it has", f"{_INSPECT}:own_explain"),
        Subcommand("top", "memory granted and memory in use, card by card", f"{_INSPECT}:own_top"),
        Subcommand(
            "rightsize",
            "what workloads ask for, the most they used, and what would be enough",
            f"{_INSPECT}:own_rightsize",
        ),
        Subcommand("nodes-needed", "how many more nodes the waiting pods need", f"{_INSPECT}:own_nodes_needed"),
        Subcommand(
            "doctor",
            "what is wrong with a cluster or a node, and what to do",
            f"{_CLI}.doctor.doctor:run",
            f"{_CLI}.doctor.doctor_settings:DOCTOR_PROGRAM",
        ),
        Subcommand(
            "support-bundle",
            "for support: one archive without secrets",
            f"{_CLI}.support_bundle.collect:run",
            f"{_CLI}.support_bundle.bundle_settings:BUNDLE_PROGRAM",
        ),
        Subcommand(
            "cards",
            "a node's cards: state, memory, temperature, and who is on them",
            f"{_CLI}.cards.cards:run",
            f"{_CLI}.cards.cards_settings:CARDS_PROGRAM",
        ),
        Subcommand(
            "cordon-card",
            "no new pods on one card; the ones there stay",
            f"{_CLI}.cordon.cordon:cordon",
            f"{_CLI}.cordon.cordon_settings:CORDON",
        ),
        Subcommand(
            "uncordon-card",
            "let new pods on a card again",
            f"{_CLI}.cordon.cordon:uncordon",
            f"{_CLI}.cordon.cordon_settings:UNCORDON",
        ),
        Subcommand(
            "defragment",
            "which pods to move to make room for a request",
            f"{_CLI}.defragment.defragment:run",
            f"{_CLI}.defragment.defragment_settings:DEFRAGMENT_PROGRAM",
        ),
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
